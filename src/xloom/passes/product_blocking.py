"""Two products and what is between them, block by block, so that the array between them need not be kept whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from xloom.hlo.computation import Computation
from xloom.hlo.dtype import pred, s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.passes.base import Pass, register
from xloom.passes.replacement import replace_each
from xloom.passes.rewrite import Rewriter, RuleTable

_COUNTER = array_shape(s32, ())
_CHEAP = frozenset(
    ["and", "broadcast", "compare", "constant", "convert", "iota", "not", "or", "reshape", "select", "transpose", "xor"]
)
"""What may be computed anew for each block."""

Places = Mapping[int, int]
"""The dimensions of an array that blocks divide, by dimension: the numbers of the blocks' axes."""


@register
@dataclass(frozen=True)
class ProductBlocking(Pass):
    """Rewrites attention, or any dot of rows that were made of a dot row by row, as a while loop over blocks of rows.

    It does so where the array between the two has `least` bytes and nothing else needs it; a block has `block` bytes.
    """

    least: int = 1 << 22
    block: int = 1 << 21

    name = "product-blocking"

    def run(self, module: Module) -> bool:
        """See the class."""
        rules = RuleTable()
        rules("dot")(self._blocked)
        return replace_each(module, rules)

    # dot(f(dot(q, k)), v)[rows] == dot(f(dot(q[rows], k)), v) where f keeps rows apart
    def _blocked(self, i: Instruction, rw: Rewriter) -> Instruction | None:
        for side in (0, 1):
            rows = i.operands[side]
            if rows.opcode != "dot" and rows.shape.size * rows.shape.dtype.bytes >= self.least:
                region = _Region(i, side, self.block)
                if region.is_worth_it:
                    return region.loop(rw)
        return None


@dataclass(frozen=True)
class _Axis:
    """A dimension of the rows that is divided: into `count` blocks of `size`."""

    dimension: int
    count: int
    size: int


class _Region:
    """What a dot's operand is made of, up to the dots before; `side` says which operand."""

    def __init__(self, dot: Instruction, side: int, most: int):
        self.dot, self.side = dot, side
        self.rows = dot.operands[side]
        self.axes = self._axes(most)
        self.outside: dict[Instruction, None] = {}
        """What the loop reads."""
        self._inside: dict[Instruction, bool] = {}
        """What it computes, and whether each block does something else."""
        self._follow(self.rows, {axis.dimension: k for k, axis in enumerate(self.axes)})

    def _axes(self, most: int) -> list[_Axis]:
        """The dimensions to divide, until a block has at most so many bytes: batches first, then rows."""
        batch, free = (list(d) for d in _operand_dims(self.dot, self.side))
        dims, axes = self.rows.shape.dims, []
        size = self.rows.shape.size * self.rows.shape.dtype.bytes
        for d in [*batch, *sorted(free, key=lambda d: -dims[d])[:1]]:
            if size > most and dims[d] > 1:
                count = min(
                    (n for n in range(1, dims[d] + 1) if dims[d] % n == 0 and size // n <= most), default=dims[d]
                )
                axes.append(_Axis(d, count, dims[d] // count))
                size //= count
        return axes

    @property
    def is_worth_it(self) -> bool:
        """True when all that is large is made inside, from a dot, and read by nothing else."""
        whole = [i for i, is_own in self._inside.items() if is_own]
        large = [i for i in whole if 2 * i.shape.size >= self.rows.shape.size]
        if not self.axes or not any(i.opcode == "dot" for i in large) or any(i in self.outside for i in whole):
            return False
        return all(user in self._inside or user is self.dot for i in whole for user in i.users)

    # -- what is inside
    def _follow(self, i: Instruction, places: Places) -> None:
        stack = [(i, places)]
        seen: set[tuple[Instruction, tuple]] = set()
        while stack:
            i, places = stack.pop()
            if _key(i, places) in seen:
                continue
            seen.add(_key(i, places))
            if not self._is_inside(i, places):
                if i.opcode != "constant" or not i.shape.is_scalar:
                    self.outside[i] = None
                continue
            self._inside[i] = len(places) == len(self.axes)
            if i.opcode == "dot":
                self.outside.update(dict.fromkeys(i.operands))
            else:
                stack += zip(i.operands, _operand_places(i, places), strict=True)
        self.outside[self.dot.operands[1 - self.side]] = None

    def _is_inside(self, i: Instruction, places: Places) -> bool:
        if not places or i.control_predecessors or i.control_successors or not i.shape.is_array:
            return False
        if i.opcode == "dot":
            return len(places) == len(self.axes)
        known = i.op.elementwise or i.opcode in ("broadcast", "iota", "transpose")
        if i.opcode == "reshape":
            known = _long(i.shape) == _long(i.operands[0].shape)
        elif i.opcode == "reduce":
            known = len(i.operands) == 2
        return known and (len(places) == len(self.axes) or i.opcode in _CHEAP)

    # -- the loop
    def loop(self, rw: Rewriter) -> Instruction:
        """The result of the dot, from a while loop."""
        module = rw.computation.module
        assert module is not None
        shapes = [_COUNTER, *(i.shape for i in self.outside), self.dot.shape]
        state = tuple_shape(shapes)
        first = [rw.constant(_COUNTER, 0), *self.outside, rw.splat(self.dot.shape, 0)]
        whole = rw.make("tuple", state, first)
        whole = rw.make(
            "while", state, [whole], condition=self._condition(module, state), body=self._body(module, state)
        )
        return rw.make("get-tuple-element", self.dot.shape, [whole], index=len(shapes) - 1)

    def _condition(self, module: Module, state: Shape) -> Computation:
        rw = Rewriter(Computation("block_condition"))
        count = rw.make("get-tuple-element", _COUNTER, [rw.make("parameter", state, parameter_number=0)], index=0)
        limit = rw.constant(_COUNTER, math.prod(a.count for a in self.axes))
        rw.computation.root = rw.make("compare", array_shape(pred, ()), [count, limit], direction="LT")
        return module.add(rw.computation)

    def _body(self, module: Module, state: Shape) -> Computation:
        rw = Rewriter(Computation("block_body"))
        whole = rw.make("parameter", state, parameter_number=0)
        count, *parts = (rw.make("get-tuple-element", s, [whole], index=k) for k, s in enumerate(state.elements))
        block = _Block(self, rw, count, dict(zip(self.outside, parts, strict=False)))
        made = block.dot()
        result = rw.make(
            "dynamic-update-slice", self.dot.shape, [parts[-1], made, *block.starts(self.result_places, made)]
        )
        following = rw.make("add", _COUNTER, [count, rw.constant(_COUNTER, 1)])
        rw.computation.root = rw.make("tuple", state, [following, *parts[:-1], result])
        return module.add(rw.computation)

    @property
    def result_places(self) -> Places:
        """Where the blocks lie in the dot's result."""
        lists = [_operand_dims(self.dot, k) for k in (0, 1)]
        batch, free = lists[self.side]
        before = len(batch) + (len(lists[0][1]) if self.side else 0)
        order = {d: k for k, d in enumerate(batch)} | {d: before + k for k, d in enumerate(free)}
        return {order[axis.dimension]: k for k, axis in enumerate(self.axes)}

    def other_places(self) -> Places:
        """Where they lie in the dot's other operand."""
        return _operand_places(self.dot, self.result_places)[1 - self.side]

    def is_inside(self, i: Instruction) -> bool:
        """True when the loop computes it."""
        return i in self._inside


class _Block:
    """The body of the loop: the same instructions for a block of rows."""

    def __init__(self, region: _Region, rw: Rewriter, count: Instruction, outside: dict[Instruction, Instruction]):
        self._region, self._rw, self._outside = region, rw, outside
        self._made: dict[tuple[Instruction, tuple], Instruction] = {}
        self._starts: list[Instruction] = []
        for axis in reversed(region.axes):
            number = count
            if axis is not region.axes[0]:
                limit = rw.constant(_COUNTER, axis.count)
                number = rw.make("remainder", _COUNTER, [count, limit])
                count = rw.make("divide", _COUNTER, [count, limit])
            size = rw.constant(_COUNTER, axis.size)
            self._starts.insert(0, rw.make("multiply", _COUNTER, [number, size]))

    def dot(self) -> Instruction:
        """The block of the result."""
        region, operands = self._region, list(self._region.dot.operands)
        operands[region.side] = self._value(region.rows, {a.dimension: k for k, a in enumerate(region.axes)})
        operands[1 - region.side] = self._slice(operands[1 - region.side], region.other_places())
        return self._like(region.dot, region.result_places, operands)

    def starts(self, places: Places, of: Instruction) -> list[Instruction]:
        """Where the block begins in an array."""
        zero = self._rw.constant(_COUNTER, 0)
        return [self._starts[places[d]] if d in places else zero for d in range(of.shape.rank)]

    def _value(self, i: Instruction, places: Places) -> Instruction:
        """The block of a value, operands first."""
        stack = [(i, places)]
        while stack:
            i, places = stack[-1]
            if _key(i, places) in self._made:
                stack.pop()
                continue
            inner = list(zip(i.operands, _operand_places(i, places), strict=True)) if self._is_made(i, places) else []
            left = [x for x in inner if _key(*x) not in self._made]
            if left:
                stack += left
                continue
            stack.pop()
            self._made[_key(i, places)] = self._block(i, places, [self._made[_key(*x)] for x in inner])
        return self._made[_key(i, places)]

    def _is_made(self, i: Instruction, places: Places) -> bool:
        return bool(places) and self._region.is_inside(i) and i not in self._outside

    def _block(self, i: Instruction, places: Places, operands: list[Instruction]) -> Instruction:
        if not self._is_made(i, places):
            return self._slice(i, places)
        new = self._like(i, places, operands)
        if i.opcode != "iota" or i["iota_dimension"] not in places:
            return new
        start = self._starts[places[i["iota_dimension"]]]
        start = self._rw.make("convert", array_shape(i.shape.dtype, ()), [start])
        return self._rw.make("add", new.shape, [new, self._rw.make("broadcast", new.shape, [start], dimensions=())])

    def _slice(self, i: Instruction, places: Places) -> Instruction:
        if i.opcode == "constant" and i.shape.is_scalar:
            return self._rw.make("constant", i.shape, literal=i["literal"])
        array = self._outside[i]
        if not places:
            return array
        shape = self._shape(i, places)
        starts = self.starts(places, i)
        return self._rw.make("dynamic-slice", shape, [array, *starts], dynamic_slice_sizes=shape.dims)

    def _like(self, i: Instruction, places: Places, operands: list[Instruction]) -> Instruction:
        new = self._rw.make(i.opcode, self._shape(i, places), operands, **i.attrs)
        new.metadata = i.metadata
        return new

    def _shape(self, i: Instruction, places: Places) -> Shape:
        axes = self._region.axes
        dims = [axes[places[d]].size if d in places else n for d, n in enumerate(i.shape.dims)]
        return array_shape(i.shape.dtype, dims)


def _key(i: Instruction, places: Places) -> tuple[Instruction, tuple]:
    return i, tuple(sorted(places.items()))


def _long(shape: Shape) -> list[int]:
    return [n for n in shape.dims if n != 1]


def _operand_dims(dot: Instruction, side: int) -> tuple[list[int], list[int]]:
    """The batch dimensions of an operand, and those that are rows or columns of the result."""
    name = ("lhs", "rhs")[side]
    batch, summed = list(dot[f"{name}_batch_dims"]), dot[f"{name}_contracting_dims"]
    return batch, [d for d in range(dot.operands[side].shape.rank) if d not in batch and d not in summed]


def _operand_places(i: Instruction, places: Places) -> list[Places]:
    """Where the blocks of a value lie in its operands."""
    if i.opcode == "dot":
        (batch, rows), (other, columns) = _operand_dims(i, 0), _operand_dims(i, 1)
        left = {d: k for k, d in enumerate(batch + rows)}
        right = {d: k for k, d in enumerate(other)} | {d: len(left) + k for k, d in enumerate(columns)}
        return [{d: places[k] for d, k in side.items() if k in places} for side in (left, right)]
    if i.opcode == "broadcast":
        return [{j: places[d] for j, d in enumerate(i["dimensions"]) if d in places}]
    if i.opcode == "transpose":
        return [{d: places[k] for k, d in enumerate(i["dimensions"]) if k in places}]
    if i.opcode == "reduce":
        kept = [d for d in range(i.operands[0].shape.rank) if d not in i["dimensions"]]
        return [{d: places[k] for k, d in enumerate(kept) if k in places}, {}]
    if i.opcode == "reshape":
        long = [[d for d, n in enumerate(s.dims) if n != 1] for s in (i.shape, i.operands[0].shape)]
        return [{e: places[d] for d, e in zip(*long, strict=True) if d in places}]
    return [places if o.shape.rank == i.shape.rank else {} for o in i.operands]
