"""A loop nest as text that says all there is to it: equal nests, and only these, have equal texts.

Arrays are `#0`, `#1`, ... by what the caller numbers them, those without a number `$0`, ...; loop variables are `i0`,
... in their order, values `%0`, ... in the order in which they are computed:

    #0 = f32[8192]
    #1 = f32[64]
    nest (i0: 64)
      body ()
        %0 = f32 constant -inf
        %1 = f32 accumulator 0
        %2 = f32 load #0[128*i0 + i1]
        %3 = f32 maximum(%1, %2)
        reduction0 over (i1: 128): %3 from %0 with %2, maximum
        %4 = f32 reduced 0 of reduction0
        store #1[i0] = %4
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xloom.codegen.buffer_values import BufferValue, leaf_shapes
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nest import LoopNest
from xloom.codegen.loop_ir.nodes import (
    AccumulatorValue,
    Clamp,
    Constant,
    If,
    Index,
    Load,
    Node,
    Op,
    Quotient,
    Reduced,
    Reduction,
    indices_of,
    post_order,
)


def nest_text(nest: LoopNest, numbers: Mapping[BufferValue, int]) -> str:
    """The text of a nest whose arrays have these numbers."""
    return "\n".join(NestText(nest, numbers).lines)


class NestText:
    """The lines of one nest: without the size of a loop and those of all arrays where there is `without`, that loop.

    Without `with_sizes`, too, those of the arrays are left out. `sizes` are these, in the order of their lines, and
    `variables` the names that variables have there, by their numbers.
    """

    def __init__(
        self,
        nest: LoopNest,
        numbers: Mapping[BufferValue, int],
        without: Var | None = None,
        *,
        with_sizes: bool = True,
    ):
        self._nest, self._numbers, self._without = nest, numbers, without
        self._with_sizes = with_sizes and without is None
        self.sizes: dict[BufferValue, int] = {}
        self._values: dict[int, str] = {}
        self._reductions: dict[int, str] = {}
        self._arrays: dict[BufferValue, str] = {}
        bodies = [[s.node for s in stage.stores] for stage in nest.stages]
        dynamic = [[v.node for s in stage.stores for v, _ in s.address.terms if v.node] for stage in nest.stages]
        nodes = [post_order([*d, *b]) for d, b in zip(dynamic, bodies, strict=True)]
        self.variables = self._numbered(nodes)
        lines = [f"nest {self._loops(nest.outer)}{' read soon' if nest.read_soon else ''}"]
        for stage, found in zip(nest.stages, nodes, strict=True):
            lines.append(f"  body {self._loops(stage.vars)}")
            for node in found:
                if id(node) not in self._values:
                    lines.extend(self._node(node))
            for store in stage.stores:
                target = f"{self._array(store.target)}[{self._index(store.address)}]"
                lines.append(f"    store {target} = {self._values[id(store.node)]}")
        self.lines = [*(self._declared(value, name) for value, name in self._arrays.items()), *lines]

    def _numbered(self, nodes: Sequence[Sequence[Node]]) -> dict[int, str]:
        """The names of all variables: which of two comes first matters to the order of sums."""
        variables = [*self._nest.outer, *(v for stage in self._nest.stages for v in stage.vars)]
        numbers = {v.number for v in variables}
        for stage, found in zip(self._nest.stages, nodes, strict=True):
            indices = [s.address for s in stage.stores]
            for node in found:
                indices += indices_of(node)
                if isinstance(node, Reduced):
                    numbers.update(v.number for v in node.reduction.vars)
            numbers.update(v.number for index in indices for v, _ in index.terms)
        return {number: f"i{rank}" for rank, number in enumerate(sorted(numbers))}

    def _loops(self, loops: Sequence[Var]) -> str:
        sizes = ["?" if v == self._without else v.size for v in loops]
        return f"({', '.join([f'{self.variables[v.number]}: {n}' for v, n in zip(loops, sizes, strict=True)])})"

    def _array(self, value: BufferValue) -> str:
        name = self._arrays.get(value)
        if name is None:
            number = self._numbers.get(value)
            name = f"#{number}" if number is not None else f"${len(self._arrays)}"
            if name in self._arrays.values():  # another array in the same memory
                name = f"{name}.{len(self._arrays)}"
            self._arrays[value] = name
        return name

    def _declared(self, value: BufferValue, name: str) -> str:
        instruction, leaf = value
        shape = leaf_shapes(instruction.shape)[leaf]
        private = " in one iteration" if value in self._nest.private else ""
        returned = " returned" if value in self._nest.returned else ""
        size = self.sizes[value] = shape.size
        return f"{name} = {shape.dtype.name}[{size if self._with_sizes else '?'}]{private}{returned}"

    def _index(self, index: Affine) -> str:
        terms = []
        for var, factor in index.terms:
            name = self.variables[var.number]
            if var.node is not None:
                name = f"{self._values[id(var.node)]}:{name}<{var.size}"
            terms.append(name if factor == 1 else f"{factor}*{name}")
        if index.const or not terms:
            terms.append(str(index.const))
        return " + ".join(terms)

    def _names(self, nodes: Sequence[Node]) -> str:
        return ", ".join([self._values[id(node)] for node in nodes])

    def _node(self, node: Node) -> Iterator[str]:
        if isinstance(node, Reduced) and id(node.reduction) not in self._reductions:
            yield self._reduction(node.reduction)
        name = self._values[id(node)] = f"%{len(self._values)}"
        yield f"    {name} = {node.dtype.name} {self._computed(node)}"

    def _reduction(self, reduction: Reduction) -> str:
        name = self._reductions[id(reduction)] = f"reduction{len(self._reductions)}"
        text = f"    {name} over {self._loops(reduction.vars)}: {self._names(reduction.bodies)}"
        text += f" from {self._names(reduction.inits)} with {self._names(reduction.elements)}"
        if reduction.arguments:
            text += f" to {', '.join([self._values.get(id(a), 'none') for a in reduction.arguments])}"
        if reduction.in_order:
            text += f", in order {self._names(reduction.in_order)}"
        return f"{text}, {reduction.plain}" if reduction.plain else text

    def _computed(self, node: Node) -> str:
        match node:
            case Op():
                return self._operator(node)
            case Load():
                return f"load {self._array(node.source)}[{self._index(node.address)}]"
            case Constant():
                return f"constant {constant_text(node.value)}"
            case Index():
                return f"index {self._index(node.value)}"
            case Quotient():
                return f"({self._index(node.value)}) {'%' if node.remainder else '/'} {node.by}"
            case Clamp():
                return f"clamp {self._values[id(node.operand)]} to 0..{node.high}"
            case If():
                tests = [f"{low} <= {self._index(index)} < {high}" for index, low, high in node.conditions]
                return f"if {' and '.join(tests)} then {self._names((node.then, node.otherwise))}"
            case AccumulatorValue():
                return f"accumulator {node.number}"
            case Reduced():
                return f"reduced {node.number} of {self._reductions[id(node.reduction)]}"
        raise TypeError(f"a {type(node).__name__} in a loop nest")

    def _operator(self, node: Op) -> str:
        operator = node.operator
        types = ", ".join([t.name for t in operator.operand_types])
        text = f"{operator.opcode}({self._names(node.operands)}) of {types}"
        if operator.dtype is not node.dtype:
            text += f" to {operator.dtype.name}"
        if operator.attributes:
            text += f" {operator.attributes!r}"
        if operator.is_scalar:
            text += " scalar"
        if node.takes_excess_precision:
            text += " of excess precision"
        return f"{text} with excess precision" if node.has_excess_precision else text


def constant_text(value: Any) -> str:
    """A number so that only the same one has that text: NaNs by their bits."""
    array = np.asarray(value)
    number = array.item() if array.dtype.kind in "biufc" else float(array)
    if number != number:
        return f"nan {array.tobytes().hex()}"
    return repr(number)
