"""Networks of convolutions with their channels last, as kernels like them: transposed where values come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xloom.hlo.attributes import ConvolutionDimensions
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.dce import remove_dead
from xloom.passes.effects import Effects

Move = Callable[[Instruction, "_Carrier"], Instruction | None]
_MOVES: dict[str, Move] = {}
_BEGIN = frozenset({"convolution", "transpose"})


@register
class ChannelsLast(Pass):
    """Makes convolutions of [batch, channels, places...] ones of [batch, places..., channels], and what lies between.

    Convolutions begin it, and transposes of what has channels last; what is computed of their results element by
    element, by windows, or by reductions follows. What else reads such a value reads it transposed back.
    """

    name = "channels-last"

    def run(self, module: Module) -> bool:
        """See the class."""
        pin_roots(module)
        return _Carrier(module.entry).run()


def _moves(*opcodes: str) -> Callable[[Move], Move]:
    def add(move: Move) -> Move:
        for opcode in opcodes:
            _MOVES[opcode] = move
        return move

    return add


def _order(rank: int) -> tuple[int, ...]:
    """Of dimensions: channels, number 1, go last."""
    return (0, *range(2, rank), 1)


def _place(dim: int, rank: int) -> int:
    """Where a dimension is then."""
    return dim if dim == 0 else rank - 1 if dim == 1 else dim - 1


def _back(rank: int) -> tuple[int, ...]:
    """The other way round."""
    return (0, rank - 1, *range(1, rank - 1))


def _moved_shape(shape: Shape) -> Shape:
    return array_shape(shape.dtype, [shape.dims[d] for d in _order(shape.rank)])


class _Carrier:
    """The instructions of a computation that there are with channels last too."""

    def __init__(self, computation: Computation):
        self.computation = computation
        self.moved: dict[Instruction, Instruction] = {}
        self.ranks: set[int] = set()
        """Of convolutions."""

    def run(self) -> bool:
        self.ranks = {i.shape.rank for i in self.computation if i.opcode == "convolution"}
        if not self.ranks:
            return False
        for i in self.computation.post_order():
            is_followed = i.opcode in _BEGIN or any(o in self.moved for o in i._operands)
            if (
                not is_followed
                or i.shape.is_dynamic
                or i.control_predecessors
                or i.control_successors
                or i.sharding is not None
            ):
                continue
            if i.op.elementwise:
                _elementwise(i, self)
            elif i.opcode in _MOVES:
                _MOVES[i.opcode](i, self)
        for old, new in self.moved.items():
            if old.opcode != "transpose" and (old.is_root or any(u not in self.moved for u in old.users)):
                back = self.made(old, "transpose", old.shape, [new], dimensions=_back(old.shape.rank))
                old.replace_all_uses_with(back)
        remove_dead(self.computation, Effects())
        return any(old.opcode != "transpose" for old in self.moved)

    def made(
        self, like: Instruction, opcode: str, shape: Shape, operands: Sequence[Instruction], **attrs: Any
    ) -> Instruction:
        """A new instruction that does what another one did."""
        new = Instruction(like.name if opcode == like.opcode else opcode, opcode, shape, operands, attrs)
        new.metadata, new.frontend_attributes = like.metadata, dict(like.frontend_attributes)
        return self.computation.add(new)

    def of(self, x: Instruction) -> Instruction:
        """A value with its channels last."""
        if x not in self.moved:
            order = _order(x.shape.rank)
            return self.made(x, "transpose", _moved_shape(x.shape), [x], dimensions=order)
        return self.moved[x]

    def carry(self, i: Instruction, operands: Sequence[Instruction], **changed: Any) -> None:
        """Notes an instruction as one of these operands, with some of its attributes changed."""
        self.moved[i] = self.made(i, i.opcode, _moved_shape(i.shape), operands, **{**i.attrs, **changed})


# conv(x, w) of [n, c, ...] == transpose(conv(transpose(x), transpose(w))) of [n, ..., c]: the same sums
@_moves("convolution")
def _convolution(i: Instruction, c: _Carrier) -> None:
    (x, w), labels, rank = i.operands, i["dim_labels"], i.shape.rank
    places = tuple(range(2, rank))
    wanted = (labels.input_batch, labels.input_feature, labels.input_spatial)
    given = (labels.output_batch, labels.output_feature, labels.output_spatial)
    if rank < 3 or i["batch_group_count"] > 1 or wanted != (0, 1, places) or given != wanted:
        return
    if i.shape.dtype.kind is not Kind.FLOAT or 0 in (*x.shape.dims, *w.shape.dims, *i.shape.dims):
        return
    order = (*labels.kernel_spatial, labels.kernel_input_feature, labels.kernel_output_feature)
    kernel = array_shape(w.shape.dtype, [w.shape.dims[d] for d in order])
    spatial, last = tuple(range(1, rank - 1)), rank - 1
    stays = x not in c.moved and x.shape.dims[1] <= _FEW_CHANNELS  # its scalars are read one by one
    first = wanted if stays else (0, last, spatial)
    new = ConvolutionDimensions(*first, rank - 2, last, tuple(range(rank - 2)), 0, last, spatial)
    w = c.made(w, "transpose", kernel, [w], dimensions=order)
    c.carry(i, [x if stays else c.of(x), w], dim_labels=new)


_FEW_CHANNELS = 4


# what was made with channels last is there
@_moves("transpose")
def _transpose(i: Instruction, c: _Carrier) -> None:
    if i.shape.rank in c.ranks and i["dimensions"] == _back(i.shape.rank):
        c.moved[i] = i.operands[0]


# f(transpose(x), transpose(y)) == transpose(f(x, y))
def _elementwise(i: Instruction, c: _Carrier) -> None:
    if i.shape.is_array and i.shape.rank >= 3 and all(o.shape.dims in (i.shape.dims, ()) for o in i.operands):
        c.carry(i, [c.of(o) if o.shape.rank else o for o in i.operands])


@_moves("reduce-window")
def _reduce_window(i: Instruction, c: _Carrier) -> None:
    if i.shape.is_array and i.shape.rank >= 3:
        x, start = i.operands
        c.carry(i, [c.of(x), start], window=_along(i["window"]))


@_moves("pad")
def _pad(i: Instruction, c: _Carrier) -> None:
    if i.operands[0] in c.moved:
        c.carry(i, [c.of(i.operands[0]), i.operands[1]], padding=_along(i["padding"]))


@_moves("slice")
def _slice(i: Instruction, c: _Carrier) -> None:
    c.carry(i, [c.of(i.operands[0])], slice=_along(i["slice"]))


@_moves("concatenate")
def _concatenate(i: Instruction, c: _Carrier) -> None:
    place = _place(i["dimensions"][0], i.shape.rank)
    c.carry(i, [c.of(o) for o in i.operands], dimensions=(place,))


@_moves("reverse")
def _reverse(i: Instruction, c: _Carrier) -> None:
    dims = sorted(_place(d, i.shape.rank) for d in i["dimensions"])
    c.carry(i, [c.of(i.operands[0])], dimensions=tuple(dims))


# reduce(x, dims) == reduce(transpose(x), places of dims), where what is left keeps its order, or has channels last too
@_moves("reduce")
def _reduce(i: Instruction, c: _Carrier) -> None:
    if not i.shape.is_array:
        return
    (x, start), rank = i.operands, i.operands[0].shape.rank
    kept = [d for d in range(rank) if d not in i["dimensions"]]
    places = [_place(d, rank) for d in kept]
    dims = tuple(sorted(_place(d, rank) for d in i["dimensions"]))
    if places == sorted(places):
        new = c.made(i, "reduce", i.shape, [c.of(x), start], **{**i.attrs, "dimensions": dims})
        i.replace_all_uses_with(new)
    elif kept[:2] == [0, 1]:
        c.carry(i, [c.of(x), start], dimensions=dims)


# reshape of [n, c, places...] to [n, c, other places...] == that of [n, places..., c]; to [n, c] of one place, no move
@_moves("reshape")
def _reshape(i: Instruction, c: _Carrier) -> None:
    x = i.operands[0]
    if x not in c.moved or i.shape.dims[:2] != x.shape.dims[:2]:
        return
    if i.shape.rank >= 3:
        c.carry(i, [c.of(x)])
    else:
        i.replace_all_uses_with(c.made(i, "reshape", i.shape, [c.of(x)]))


def _along(each: Sequence[Any]) -> tuple[Any, ...]:
    """What there is for each dimension, in the order of the dimensions then."""
    return tuple(each[d] for d in _order(len(each)))
