"""One row per opcode: what code generation knows of it. Every stage that asks about opcodes reads this table.

Beside its row, an opcode has a rule: for one element (`codegen/elemental`), a kernel (the backend's `kernels`), or a
thunk of the entry function. What a kernel says of single instructions is in `codegen/kernel_facts.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, Flag, auto


class Role(Enum):
    """What becomes of an instruction."""

    ELEMENT = auto()
    """Its elements are computed where they are used, or stored by a loop nest."""
    ROOT = auto()
    """A loop nest stores it: it is fused with what it reads, not with what reads it."""
    KERNEL = auto()
    """It has a kernel of its own."""
    ENTRY = auto()
    """A thunk of the entry function."""
    CONTROL = auto()
    """A thunk of the entry function that enters other computations."""
    ALIAS = auto()
    """It only says whose memory a value is."""
    REWRITTEN = auto()
    """Passes replace it before code is generated."""


class Trait(Flag):
    """What else the stages ask."""

    NONE = 0
    FORWARDS = auto()
    """Its result is its first operand's memory, if both have some: arrays in memory are dense and row-major."""
    FREE = auto()
    """An element costs no arithmetic."""
    KEEPS_ORDER = auto()
    """Elements that are adjacent in the operand are so in the result."""
    OF_PARTS = auto()
    """Each element is one operand's or another's."""
    PASSES_VALUE = auto()
    """An element is an operand's, but for its sign: it is not rounded."""
    DISCONTINUOUS = auto()
    """A little more or less of an operand may change much."""
    UPDATES = auto()
    """It changes a part of its first operand, in place where no other instruction reads that."""
    SKIPS_UNREAD = auto()
    """Its kernel does not write outputs that no instruction reads."""
    BY_SHAPE = auto()
    """Its kernel depends on nothing but shapes and attributes."""
    VIRTUAL = auto()
    """Nothing is computed for it: readers make what they need."""
    READS_PART = auto()
    """It may read a small part of its first operand."""
    IRREGULAR = auto()
    """It reads or writes memory in an order that caches do not like."""
    WAITS = auto()
    """It waits for the host, or for another device."""


@dataclass(frozen=True)
class OpRow:
    """What code generation knows of an opcode."""

    opcode: str
    role: Role
    cost: int
    """Of an element's arithmetic, next to an addition."""
    traits: Trait
    kernel: str
    """The file with its rule, in the backend's `kernels`."""
    by: str
    """The passes that replace it, by name."""


OP_ROWS: dict[str, OpRow] = {}


def row(opcode: str, role: Role, traits: Trait = Trait.NONE, *, cost: int = 1, kernel: str = "", by: str = "") -> None:
    """Adds a row to the table."""
    OP_ROWS[opcode] = OpRow(opcode, role, cost, traits, kernel, by)


def having(trait: Trait) -> frozenset[str]:
    """The opcodes with a trait."""
    return frozenset(name for name, found in OP_ROWS.items() if trait in found.traits)


_E, _ROOT, _KERNEL, _ENTRY = Role.ELEMENT, Role.ROOT, Role.KERNEL, Role.ENTRY
_CONTROL, _ALIAS, _REWRITTEN = Role.CONTROL, Role.ALIAS, Role.REWRITTEN
_FORWARDS, _FREE, _ORDER = Trait.FORWARDS, Trait.FREE, Trait.KEEPS_ORDER
_PASSES_VALUE, _DISCONTINUOUS = Trait.PASSES_VALUE, Trait.DISCONTINUOUS
_VIRTUAL, _PART, _IRREGULAR, _WAITS = Trait.VIRTUAL, Trait.READS_PART, Trait.IRREGULAR, Trait.WAITS
_BY_SHAPE = Trait.BY_SHAPE
_ASYNC = "async-simplification"

# fmt: off
# elementwise, one operand
row("abs",                      _E, _PASSES_VALUE)
row("acos",                     _E, cost=30)
row("acosh",                    _E, cost=30)
row("asin",                     _E, cost=30)
row("asinh",                    _E, cost=30)
row("atanh",                    _E, cost=30)
row("cbrt",                     _E, cost=30)
row("ceil",                     _E, _DISCONTINUOUS)
row("convert",                  _E, _FREE)
row("copy",                     _E, _FORWARDS | _FREE | _PASSES_VALUE)
row("cosine",                   _E, cost=12)
row("cosh",                     _E, cost=30)
row("count-leading-zeros",      _E)
row("erf",                      _E, cost=12)
row("exponential",              _E, cost=12)
row("exponential-minus-one",    _E, cost=12)
row("floor",                    _E, _DISCONTINUOUS)
row("imag",                     _E, _FREE)
row("is-finite",                _E)
row("log",                      _E, cost=12)
row("log-plus-one",             _E, cost=12)
row("logistic",                 _E, cost=12)
row("negate",                   _E, _PASSES_VALUE)
row("not",                      _E)
row("popcnt",                   _E)
row("real",                     _E, _FREE)
row("reduce-precision",         _E)
row("round-nearest-afz",        _E, _DISCONTINUOUS)
row("round-nearest-even",       _E, _DISCONTINUOUS)
row("rsqrt",                    _E, cost=6)
row("sign",                     _E)
row("sine",                     _E, cost=12)
row("sinh",                     _E, cost=30)
row("sqrt",                     _E, cost=6)
row("tan",                      _E, cost=30)
row("tanh",                     _E, cost=12)
# elementwise, two or three operands
row("add",                      _E)
row("and",                      _E)
row("atan2",                    _E, cost=30)
row("clamp",                    _E, _PASSES_VALUE)
row("compare",                  _E)
row("complex",                  _E)
row("divide",                   _E, cost=6)
row("maximum",                  _E, _PASSES_VALUE)
row("minimum",                  _E, _PASSES_VALUE)
row("mulhi",                    _E)
row("multiply",                 _E)
row("or",                       _E)
row("power",                    _E, cost=30)
row("remainder",                _E, _DISCONTINUOUS, cost=30)
row("select",                   _E, _PASSES_VALUE)
row("shift-left",               _E)
row("shift-right-arithmetic",   _E)
row("shift-right-logical",      _E)
row("stochastic-convert",       _E)
row("subtract",                 _E)
row("xor",                      _E)
# layout
row("bitcast",                  _E, _FREE | _ORDER | _VIRTUAL)
row("bitcast-convert",          _E)
row("broadcast",                _E, _FREE | _ORDER | _VIRTUAL)
row("concatenate",              _E, Trait.OF_PARTS)
row("dynamic-reshape",          _E, _FORWARDS)
row("pad",                      _E, Trait.OF_PARTS)
row("reshape",                  _E, _FORWARDS | _FREE | _ORDER | _VIRTUAL)
row("reverse",                  _E, _FREE)
row("slice",                    _E, _FREE | _PART)
row("transpose",                _E, _FREE | _IRREGULAR)
# constants and shapes
row("constant",                 _ENTRY, _FREE | _VIRTUAL)
row("get-dimension-size",       _REWRITTEN, by="dynamic-padding")
row("iota",                     _E, _FREE | _VIRTUAL)
row("parameter",                _ALIAS, _VIRTUAL)
row("set-dimension-size",       _REWRITTEN, by="dynamic-padding")
# dynamic: where depends on data
row("dynamic-slice",            _E, _PART)
row("dynamic-update-slice",     _ROOT, Trait.UPDATES)
row("gather",                   _E, _PART | _IRREGULAR)
row("scatter",                  _KERNEL, Trait.UPDATES | _IRREGULAR, kernel="scatter")
# reduce
row("reduce",                   _ROOT)
row("reduce-window",            _KERNEL, kernel="window.reduce_window")
row("scan",                     _KERNEL, kernel="scan")
row("select-and-scatter",       _KERNEL, kernel="window.select_and_scatter")
row("sort",                     _KERNEL, Trait.SKIPS_UNREAD, kernel="sort.sort")
row("topk",                     _KERNEL, kernel="sort.top_k")
# linear algebra
row("batch-norm-grad",          _REWRITTEN, by="batch-norm-expansion")
row("batch-norm-inference",     _REWRITTEN, by="batch-norm-expansion")
row("batch-norm-training",      _REWRITTEN, by="batch-norm-expansion")
row("cholesky",                 _KERNEL, _BY_SHAPE, kernel="linalg.cholesky")
row("convolution",              _KERNEL, _BY_SHAPE, kernel="convolution.convolution")
row("dot",                      _KERNEL, _BY_SHAPE, kernel="matmul.dot")
row("fft",                      _KERNEL, _BY_SHAPE, kernel="fft.fft")
row("ragged-dot",               _KERNEL, kernel="matmul.dot")
row("scaled-dot",               _KERNEL, kernel="matmul.dot")
row("triangular-solve",         _KERNEL, _BY_SHAPE, kernel="linalg.triangular_solve")
# control
row("call",                     _REWRITTEN, by="inlining")
row("conditional",              _CONTROL)
row("fusion",                   _REWRITTEN, by="inlining")
row("map",                      _E)
row("while",                    _CONTROL)
row("domain",                   _E, _FORWARDS)
row("opt-barrier",              _E, _FORWARDS | _FREE)
# tuples and tokens
row("add-dependency",           _E, _FORWARDS)
row("after-all",                _ALIAS)
row("get-tuple-element",        _ALIAS, _VIRTUAL)
row("tuple",                    _ALIAS, _VIRTUAL)
# random
row("rng",                      _KERNEL, kernel="random.rng")
row("rng-bit-generator",        _KERNEL, kernel="random.rng_bit_generator")
row("rng-get-and-update-state", _KERNEL, kernel="random.rng")
# collective
row("all-gather",               _ENTRY)
row("all-gather-done",          _REWRITTEN, by=_ASYNC)
row("all-gather-start",         _REWRITTEN, by=_ASYNC)
row("all-reduce",               _REWRITTEN, by="collective-expansion collective-simplification")
row("all-reduce-done",          _REWRITTEN, by=_ASYNC)
row("all-reduce-start",         _REWRITTEN, by=_ASYNC)
row("all-to-all",               _ENTRY)
row("collective-broadcast",     _ENTRY)
row("collective-permute",       _ENTRY)
row("collective-permute-done",  _REWRITTEN, by=_ASYNC)
row("collective-permute-start", _REWRITTEN, by=_ASYNC)
row("partition-id",             _ENTRY)
row("ragged-all-to-all",        _ENTRY)
row("reduce-scatter",           _REWRITTEN, by="collective-expansion collective-simplification")
row("replica-id",               _ENTRY)
# asynchronous wrappers
row("async-done",               _REWRITTEN, by=_ASYNC)
row("async-start",              _REWRITTEN, by=_ASYNC)
row("async-update",             _REWRITTEN, by=_ASYNC)
row("copy-done",                _REWRITTEN, by=_ASYNC)
row("copy-start",               _REWRITTEN, by=_ASYNC)
# custom calls and the host
row("custom-call",              _ENTRY)
row("infeed",                   _ENTRY, _WAITS)
row("outfeed",                  _ENTRY, _WAITS)
row("recv",                     _ENTRY, _WAITS)
row("recv-done",                _ALIAS, _FORWARDS)
row("send",                     _ENTRY, _WAITS)
row("send-done",                _ENTRY)
# fmt: on
