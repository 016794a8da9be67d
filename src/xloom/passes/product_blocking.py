"""Two products and what is between them, block by block, so that the array between them need not be kept whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xloom.hlo.computation import Computation
from xloom.hlo.dtype import pred, s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.product_tiling import is_of_tiles
from xloom.passes.rewrite import Rewriter, RuleTable
from xloom.passes.row_region import (
    BLOCK_BYTES,
    LEAST_BYTES,
    LEAST_ROWS,
    Places,
    Result,
    RowRegion,
    block_count,
    is_worth_dividing,
    key,
)

_COUNTER = array_shape(s32, ())
BLOCKS = "xloom.blocks"
"""The attribute of a loop whose iterations store blocks, of which its results consist: in any order, or at once."""


@register
@dataclass(frozen=True)
class ProductBlocking(Pass):
    """Rewrites attention, or any dot of rows that were made of a dot row by row, as a while loop over blocks of rows.

    It does so where the array between the two has `least` bytes and what else reads it can be part of the loop; a block
    has `block` bytes and `rows` rows. One of products whose right operands are tiles, which need not be packed again
    for each, has `tiled_block` bytes: what a thread keeps in its core's caches, where it keeps those operands as well,
    which have `cached` bytes at most.
    """

    least: int = LEAST_BYTES
    block: int = BLOCK_BYTES
    rows: int = LEAST_ROWS
    tiled_block: int = 400_000
    cached: int = 1 << 20

    name = "product-blocking"
    opcodes = ("dot",)

    def run(self, module: Module) -> bool:
        """See the class."""
        rules = RuleTable()
        rules("dot")(self._blocked)
        return expand_ops(module, rules)

    # dot(f(dot(q, k)), v)[rows] == dot(f(dot(q[rows], k)), v) where f keeps rows apart
    def _blocked(self, i: Instruction, rw: Rewriter) -> Instruction | None:
        if i.is_dead:  # as a loop gives it already
            return None
        for side in (0, 1):
            if not is_worth_dividing(i.operands[side], self.least):
                continue
            for even in (False, True):  # what is added up is of even blocks
                is_tiled = is_of_tiles(i)
                region = RowRegion(i, side, self.tiled_block if is_tiled else self.block, self.rows, even=even)
                if region.is_worth_it and (not is_tiled or _right_bytes(region) <= self.cached):
                    return _loop(region, i, rw)
        return None


def _right_bytes(region: RowRegion) -> int:
    """Of what each block multiplies rows by, of one of a batch."""
    rights = ((d.operands[1].shape, d["rhs_batch_dims"]) for d in region.dots)
    return sum(shape.nbytes // prod(shape.dims[d] for d in batch) for shape, batch in rights)


def _loop(region: RowRegion, dot: Instruction, rw: Rewriter) -> Instruction:
    """The result of the dot, from a while loop that gives all others too."""
    module = rw.computation.module
    assert module is not None
    inputs, results = list(region.outside), list(region.results)
    state = tuple_shape([_COUNTER, *(i.shape for i in (*inputs, *results))])
    first = [rw.constant(_COUNTER, 0), *inputs, *(rw.splat(i.shape, 0) for i in results)]
    whole = rw.make("tuple", state, first)
    limit = block_count(region.axes)
    condition, body = _condition(module, state, limit), _body(region, module, state)
    whole = rw.make("while", state, [whole], condition=condition, body=body)
    if not any(result.is_added for result in region.results.values()):
        whole.frontend_attributes[BLOCKS] = "true"
    made = {i: rw.make("get-tuple-element", i.shape, [whole], index=1 + len(inputs) + k) for k, i in enumerate(results)}
    for i, value in made.items():
        if i is not dot:
            i.replace_all_uses_with(value)
    return made[dot]


def _condition(module: Module, state: Shape, limit: int) -> Computation:
    rw = Rewriter(Computation("block_condition"))
    count = rw.make("get-tuple-element", _COUNTER, [rw.make("parameter", state, parameter_number=0)], index=0)
    rw.computation.root = rw.make(
        "compare", array_shape(pred, ()), [count, rw.constant(_COUNTER, limit)], direction="LT"
    )
    return module.add(rw.computation)


def _body(region: RowRegion, module: Module, state: Shape) -> Computation:
    rw = Rewriter(Computation("block_body"))
    whole = rw.make("parameter", state, parameter_number=0)
    count, *parts = (rw.make("get-tuple-element", s, [whole], index=k) for k, s in enumerate(state.elements))
    inputs = parts[: len(region.outside)]
    block = _Block(region, rw, count, dict(zip(region.outside, inputs, strict=True)))
    results = [
        block.put(i, result, part)
        for (i, result), part in zip(region.results.items(), parts[len(inputs) :], strict=True)
    ]
    following = rw.make("add", _COUNTER, [count, rw.constant(_COUNTER, 1)])
    rw.computation.root = rw.make("tuple", state, [following, *inputs, *results])
    return module.add(rw.computation)


class _Block:
    """The body of the loop: the same instructions for a block of rows."""

    def __init__(self, region: RowRegion, rw: Rewriter, count: Instruction, outside: dict[Instruction, Instruction]):
        self._region, self._rw, self._outside = region, rw, outside
        self._made: dict[tuple[Instruction, tuple], Instruction] = {}
        self._starts: list[Instruction] = []
        for axis in reversed(region.axes):
            number = count
            if axis is not region.axes[0]:
                limit = rw.constant(_COUNTER, axis.count)
                number = rw.make("remainder", _COUNTER, [count, limit])
                count = rw.make("divide", _COUNTER, [count, limit])
            start = rw.make("multiply", _COUNTER, [number, rw.constant(_COUNTER, axis.size)])
            if not axis.is_even:
                start = rw.make("minimum", _COUNTER, [start, rw.constant(_COUNTER, axis.length - axis.size)])
            self._starts.insert(0, start)

    def put(self, i: Instruction, result: Result, whole: Instruction) -> Instruction:
        """The whole result with what this block gives of it."""
        rw, places = self._rw, result.places
        made = self._value(i, places)
        if result.is_added:
            made = rw.make("add", made.shape, [self._part(whole, places), made])
        return (
            rw.make("dynamic-update-slice", whole.shape, [whole, made, *self._begin(places, made)]) if places else made
        )

    def _begin(self, places: Places, of: Instruction) -> list[Instruction]:
        """Where the block begins in an array."""
        zero = self._rw.constant(_COUNTER, 0)
        return [self._starts[places[d]] if d in places else zero for d in range(of.shape.rank)]

    def _value(self, i: Instruction, places: Places) -> Instruction:
        """The block of a value, operands first."""
        stack = [(i, places)]
        while stack:
            i, places = stack[-1]
            if key(i, places) in self._made:
                stack.pop()
                continue
            inner = self._operands(i, places)
            left = [x for x in inner if key(*x) not in self._made]
            if left:
                stack += left
                continue
            stack.pop()
            self._made[key(i, places)] = self._block(i, places, [self._made[key(*x)] for x in inner])
        return self._made[key(i, places)]

    def _operands(self, i: Instruction, places: Places) -> Sequence[tuple[Instruction, Places]]:
        if not self._is_made(i, places):
            return []
        return list(zip(i.operands, self._region.operand_places(i, places), strict=True))

    def _is_made(self, i: Instruction, places: Places) -> bool:
        return i in self._region.results or (bool(places) and self._region.is_inside(i))

    def _block(self, i: Instruction, places: Places, operands: list[Instruction]) -> Instruction:
        if not self._is_made(i, places):
            if i.opcode == "constant" and i.shape.is_scalar:
                return self._rw.make("constant", i.shape, literal=i["literal"])
            return self._part(self._outside[i], places)
        attrs = i.attrs
        if i.opcode == "slice":
            cut = zip(i["slice"], self._shape(i, places).dims, strict=True)
            attrs = {**attrs, "slice": tuple(s._replace(limit=n) if d in places else s for d, (s, n) in enumerate(cut))}
        new = self._rw.make(i.opcode, self._shape(i, places), operands, **attrs)
        new.metadata = i.metadata
        if i.opcode != "iota" or i["iota_dimension"] not in places:
            return new
        start = self._starts[places[i["iota_dimension"]]]
        start = self._rw.make("convert", array_shape(i.shape.dtype, ()), [start])
        return self._rw.make("add", new.shape, [new, self._rw.make("broadcast", new.shape, [start], dimensions=())])

    def _part(self, array: Instruction, places: Places) -> Instruction:
        """The block of an array that is there whole."""
        if not places:
            return array
        shape = self._shape(array, places)
        starts = self._begin(places, array)
        return self._rw.make("dynamic-slice", shape, [array, *starts], dynamic_slice_sizes=shape.dims)

    def _shape(self, i: Instruction, places: Places) -> Shape:
        axes = self._region.axes
        dims = [axes[places[d]].size if d in places else n for d, n in enumerate(i.shape.dims)]
        return array_shape(i.shape.dtype, dims)
