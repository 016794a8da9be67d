"""Loops in LLVM IR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from xloom.llvm.intrinsics import overloaded
from xloom.llvm.symbolic_dimension import SymbolicDimension
from xloom.llvm.target import Target
from xloom.llvm.types import I1, I32, I64, POINTER, i64

Hint = tuple[str, ir.Constant | None]
"""A name of LLVM's loop metadata, and its value."""
VECTOR_ONLY: tuple[Hint, ...] = (("llvm.loop.unroll.disable", None),)
"""For innermost loops of few but enough iterations: were they unrolled, an outer loop would be vectorised instead."""
AS_OFTEN: tuple[Hint, ...] = (("llvm.loop.unroll.runtime.disable", None),)
"""For loops around others, of an unknown number of iterations: several copies of the loops inside are no gain."""
UNROLLED: tuple[Hint, ...] = (("llvm.loop.unroll.full", None),)
"""For loops of a few iterations around a vector each: their addresses become constants."""
SCALAR: tuple[Hint, ...] = (("llvm.loop.vectorize.enable", I1(0)),)
"""For loops whose vectors would be taken apart again."""
PLAIN: tuple[Hint, ...] = (("llvm.loop.disable_nonforced", None),)
"""For loops that run seldom: left as they are, they cost little to compile."""
_MASKED: Hint = ("llvm.loop.vectorize.predicate.enable", I1(1))
_FEW = range(16, 128)
_SUMS = 2
"""How many vectors a part of a sum is added to, which waits for each of them: its last ones have few elements."""
_INTERLEAVED = ((12, 0), (64, 4), (400, 2))
"""How many vectors are computed side by side, by what an element of them costs at most."""


def hints_for(iterations: int, cost: int = 0) -> Sequence[Hint]:
    """Loop metadata for an innermost loop of so many iterations; longer ones LLVM would not unroll.

    With the `cost` of an iteration that is a chain of operations, long loops do several at once: processors look only
    so far ahead for something that need not wait.
    """
    if _FEW.start <= iterations < _FEW.stop:
        return VECTOR_ONLY
    vectors = interleaving(cost)
    return (("llvm.loop.interleave.count", I32(vectors)),) if vectors > 1 else ()


def interleaving(cost: int) -> int:
    """How many vectors of elements of that cost are computed side by side; 0 leaves it to LLVM."""
    return next((n for most, n in _INTERLEAVED if cost <= most), 1)


def masked_hints_for(iterations: int, cost: int, target: Target, nbytes: int) -> Sequence[Hint]:
    """Loop metadata, as `hints_for` gives, for a loop of elements of `nbytes` without branches that adds nothing up.

    Where the target has masks, the last vector is one of fewer elements if that leaves few lanes idle: one at a
    time, these elements could take longer than all those before.
    """
    lanes = target.registers.nbytes // nbytes
    if iterations < _FEW.stop and iterations % lanes > lanes // 2 and target.registers.nbytes == 64:
        return (*VECTOR_ONLY, _MASKED)
    return hints_for(iterations, cost)


def part_hints_for(most: int, cost: int, target: Target) -> Sequence[Hint]:
    """Loop metadata for a part, of unknown length, of a loop of `most` iterations that adds nothing up.

    Of a short one a good deal is less than a vector.
    """
    return (*VECTOR_ONLY, _MASKED) if most < _FEW.stop and target.registers.nbytes == 64 else hints_for(most, cost)


def summing_part_hints(target: Target) -> Sequence[Hint]:
    """Loop metadata for a part, of unknown length, of a loop that adds up: less than two vectors are many elements."""
    if target.registers.nbytes < 64:
        return ()
    return (*VECTOR_ONLY, _MASKED, ("llvm.loop.interleave.count", I32(_SUMS)))


class _LoopIdentity(ir.MDValue):
    """Loop metadata: a distinct node whose first operand is itself."""

    def __init__(self, module: ir.Module, hints: Sequence[Hint]):
        flags = [
            module.add_metadata([ir.MetaDataString(module, name), *([] if value is None else [value])])
            for name, value in hints
        ]
        super().__init__(module, [], name=str(len(module.metadata)))
        self.operands = (self, *flags)

    def descr(self, buf: list[str]) -> None:
        """The definition, as llvmlite prints it."""
        super().descr(buf)
        for k in range(len(buf) - 1, -1, -1):
            if buf[k].startswith("!{"):
                buf[k] = f"distinct {buf[k]}"
                return


@contextmanager
def loop(
    b: ir.IRBuilder,
    begin: ir.Value | int | SymbolicDimension,
    end: ir.Value | int | SymbolicDimension,
    step: ir.Value | int | SymbolicDimension = 1,
    name: str = "i",
    hints: Sequence[Hint] = (),
) -> Iterator[ir.Value]:
    """`for (i64 i = begin; i < end; i += step)`; the body is what is emitted in the `with`.

    The test is at the top, so that empty ranges run nothing. Values of the body are not seen after it: keep what is
    needed in an `alloca`, which LLVM turns into registers. `hints` are LLVM's loop metadata. The number at the end of a
    name is left out: code is shared by all that would get the same, whatever else their programs have.
    """
    name = name.rstrip("0123456789")
    first, last, following = map(i64, (begin, end, step))
    before = b.block
    head, body, done = (b.append_basic_block(f"{name}.{part}") for part in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(I64, name)
    i.add_incoming(first, before)
    b.cbranch(b.icmp_signed("<", i, last), body, done)
    b.position_at_end(body)
    yield i
    down = isinstance(step, int) and step < 0
    i.add_incoming(b.add(i, following, flags=["nsw"] if down else ["nsw", "nuw"]), b.block)
    back = b.branch(head)
    if hints:
        back.set_metadata("llvm.loop", _LoopIdentity(b.module, hints))
    b.position_at_end(done)


def allocate(
    b: ir.IRBuilder, kind: ir.Type, count: int | None = None, name: str = "", *, in_parts: bool = False
) -> ir.Value:
    """Stack memory of one `kind`, or of `count`, made once at the function's entry.

    `in_parts` is for what several loops write, whose steps may go downwards. Of vectors that are stored in another
    order than they lie in memory, and loaded as a longer one, LLVM 22 makes a value that it uses before it is defined,
    and then fails; but not of memory that is said to live.
    """
    entry = b.function.entry_basic_block
    with b.goto_block(entry):
        b.position_at_start(entry)
        slot = b.alloca(kind if count is None else ir.ArrayType(kind, count), name=name)
        slot.type = POINTER  # loads and stores say what they are of
        if in_parts:
            b.position_after(slot)
            overloaded(b, "lifetime.start", [POINTER], ir.VoidType(), [slot])
    return slot
