"""From instructions to nodes: what an element of a fused instruction is, by rules registered per opcode."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from xloom.codegen.buffer_values import defining_value
from xloom.codegen.loop_ir.affine import Affine, Var, constant, linear, variable
from xloom.codegen.loop_ir.index_numbers import index_expression
from xloom.codegen.loop_ir.nodes import Clamp, Constant, Load, Node, Quotient
from xloom.codegen.loop_ir.scalar_ops import scalar_op
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import s64
from xloom.hlo.instruction import Instruction
from xloom.llvm.scalar.operator import operator_of
from xloom.llvm.scalar.rules import RULES
from xloom.llvm.scalar.scalar_computation import no_scalar_code
from xloom.trampoline import Nested, run

IndexTuple = tuple[Affine, ...]
ElementRule = Callable[["Tracer", Instruction, IndexTuple], Nested[Node]]
"""Yields the elements of operands that it needs."""
ELEMENTS: dict[str, ElementRule] = {}
SCALAR = "scalar operator"
"""In place of the opcodes of which `llvm/scalar` says what they do to elements."""


def element_of(*opcodes: str) -> Callable[[ElementRule], ElementRule]:
    """Registers `rule(tracer, instruction, index) -> node`, a generator that yields `tracer.element(...)`."""

    def register(rule: ElementRule) -> ElementRule:
        for opcode in opcodes:
            ELEMENTS[opcode] = rule
        return rule

    return register


def rule_of(opcode: str) -> ElementRule:
    """The rule of an opcode whose role is to be a part of loop nests."""
    return ELEMENTS.get(opcode) or ELEMENTS[SCALAR]


class Split(Exception):
    """A loop must be two for an index to be an index expression: see `Tracer.divide`."""


Factors = dict[Any, list[int]]
"""For a dimension that loops run over: the sizes of its loops, outermost first."""


class Tracer:
    """Makes the nodes of one kernel. `inlined` are the instructions that are computed here; all others are loaded."""

    def __init__(self, inlined: Collection[Instruction], factors: Factors):
        self.inlined = inlined
        self.factors = factors
        self._number = 0
        self._memo: dict[tuple[Instruction, IndexTuple], Node] = {}
        self._loops: dict[Any, list[Var]] = {}
        self._loop_of: dict[Var, tuple[Any, int]] = {}
        self._clamped: dict[tuple[int, int], Affine] = {}
        """Clamped integers by node and limit: equal indices are to be known as equal."""

    def var(self, name: str, size: int, node: Node | None = None) -> Var:
        """A new variable over [0, size), with a number of its own; `node` computes it where it is no loop's."""
        self._number += 1
        return Var(f"{name}{self._number}", size, node, self._number)

    def loops(self, key: Any, size: int, name: str) -> list[Var]:
        """The loops, outermost first, over a dimension of `size` that `key` names; the same ones each time."""
        if key not in self._loops:
            made = [self.var(name, factor) for factor in self.factors.setdefault(key, [size])]
            self._loops[key] = made
            self._loop_of.update({var: (key, k) for k, var in enumerate(made)})
        return self._loops[key]

    def element(self, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
        """The element of an instruction's array at `index`."""
        key = (instruction, index)
        node = self._memo.get(key)
        if node is None:
            shape = instruction.shape
            if _is_number(instruction):
                node = Constant(shape.dtype, instruction.literal.value.reshape(-1)[0])
            elif instruction not in self.inlined:
                node = self.loaded(instruction, linear(index, shape.dims))
            else:
                node = yield rule_of(instruction.opcode)(self, instruction, index)
            self._memo[key] = node
        return node

    def root_element(self, instruction: Instruction, index: IndexTuple) -> Node:
        """The element of an instruction that this kernel computes and stores."""
        key = (instruction, index)
        node = self._memo.get(key)
        if node is None or isinstance(node, Load):
            node = self._memo[key] = run(rule_of(instruction.opcode)(self, instruction, index))
        return node

    def is_loaded(self, instruction: Instruction) -> bool:
        """True when its elements lie in memory."""
        return instruction not in self.inlined and not _is_number(instruction)

    def loaded(self, instruction: Instruction, position: Affine) -> Node:
        """The element at a row-major position of an array in memory."""
        return Load(instruction.shape.dtype, defining_value(instruction), position)

    # -- index arithmetic
    def divide(self, value: Affine, by: int) -> tuple[Affine, Affine]:
        """Quotient and remainder, with loops split or divisions at run time where need be."""
        exact = value.divmod(by)
        if exact is not None:
            return exact
        # a single variable that runs over several multiples of `by` is two loops
        for var, factor in value.terms:
            if factor > 0 and var in self._loop_of and by % factor == 0:
                inner = by // factor
                if 1 < inner < var.size and var.size % inner == 0:
                    key, k = self._loop_of[var]
                    self.factors[key][k : k + 1] = [var.size // inner, inner]
                    raise Split
        low = value.low // by
        shifted = value - low * by
        quotient = self.var("q", shifted.high // by + 1, Quotient(s64, shifted, by, False))
        remainder = self.var("r", by, Quotient(s64, shifted, by, True))
        return variable(quotient) + low, variable(remainder)

    def delinearised(self, position: Affine, dims: Sequence[int]) -> IndexTuple:
        """The index of the element at a row-major position."""
        out: list[Affine] = []
        for size in reversed(dims[1:]):
            position, rest = self.divide(position, size) if size != 1 else (position, constant(0))
            out.append(rest)
        if dims:
            out.append(position if dims[0] != 1 else constant(0))
        return tuple(reversed(out))

    def bounded(self, node: Node, high: int) -> Affine:
        """An integer node, clamped to [0, high], as an index."""
        if high <= 0:
            return constant(0)
        if isinstance(node, Constant):
            return constant(min(max(int(node.value), 0), high))
        expression = index_expression(node)
        if expression is not None and expression.low >= 0 and expression.high <= high:
            return expression
        key = id(node), high
        if key not in self._clamped:
            self._clamped[key] = variable(self.var("d", high + 1, Clamp(s64, node, high)))
        return self._clamped[key]

    # -- regions
    def region(self, computation: Computation, arguments: Sequence[Node]) -> tuple[Node, ...]:
        """The values of a scalar computation's root for argument nodes."""
        return run(self._region(computation, arguments))

    def _region(self, computation: Computation, arguments: Sequence[Node]) -> Nested[tuple[Node, ...]]:
        values: dict[Instruction, tuple[Node, ...]] = {}
        for instruction in computation.post_order():
            if instruction.opcode in ("call", "map", "fusion"):
                callee, operands = instruction.called_computations[0], [values[o][0] for o in instruction._operands]
                values[instruction] = yield self._region(callee, operands)
            else:
                values[instruction] = _region_value(instruction, arguments, values)
        return values[computation.root]


def _region_value(
    instruction: Instruction, arguments: Sequence[Node], values: dict[Instruction, tuple[Node, ...]]
) -> tuple[Node, ...]:
    opcode, operands = instruction.opcode, instruction._operands
    if opcode == "parameter":
        return (arguments[instruction["parameter_number"]],)
    if opcode == "constant" and instruction.shape.is_scalar:
        return (Constant(instruction.shape.dtype, instruction.literal.value[()]),)
    if opcode == "tuple":
        return tuple(values[o][0] for o in operands)
    if opcode == "get-tuple-element":
        return (values[operands[0]][instruction["index"]],)
    if opcode in ("broadcast", "reshape", "bitcast", "transpose", "opt-barrier") and operands[0].shape.is_scalar:
        return values[operands[0]]
    if opcode not in RULES or not instruction.shape.is_scalar:
        raise no_scalar_code(instruction)
    return (apply(instruction, [values[o][0] for o in operands]),)


def _is_number(instruction: Instruction) -> bool:
    return instruction.opcode == "constant" and instruction.shape.size == 1


def apply(instruction: Instruction, operands: Sequence[Node]) -> Node:
    """An elementwise instruction of operand elements."""
    return scalar_op(operator_of(instruction), operands)


def joined(loops: Sequence[Var]) -> Affine:
    """The index that several loops over one dimension make, outermost first."""
    out, stride = constant(0), 1
    for var in reversed(loops):
        out = out + variable(var) * stride
        stride *= var.size
    return out
