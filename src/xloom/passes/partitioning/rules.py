"""How operators work on parts: for each opcode what it needs of its operands, and what the device's part of it is.

A rule gets the instruction, the parts of its operands and how the result should be cut, and gives the parts of the
result; None where it knows nothing better than to compute all of it on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xloom.hlo.attributes import SliceDimension
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.passes.partitioning.resharding import Emitter, PartitionedValue
from xloom.passes.partitioning.tile_assignment import Factor, Factors, Tiles, are_independent, extent

Rule = Callable[[Instruction, list[PartitionedValue], Tiles, Emitter], "list[PartitionedValue] | None"]
RULES: dict[str, Rule] = {}


def rule(*opcodes: str) -> Callable[[Rule], Rule]:
    """Registers a function for operators."""

    def add(rule: Rule) -> Rule:
        for opcode in opcodes:
            RULES[opcode] = rule
        return rule

    return add


def like(e: Emitter, i: Instruction, shape: Shape, operands: Iterable[Instruction], **changed: Any) -> Instruction:
    """The same operator on other operands."""
    new = Instruction(i.name, i.opcode, shape, list(operands), {**i.attrs, **changed})
    new.metadata, new.backend_config = i.metadata, i.backend_config
    new.frontend_attributes = dict(i.frontend_attributes)
    return e.computation.add(new)


def _local(i: Instruction, tiles: Tiles) -> Shape:
    return array_shape(i.shape.dtype, tiles.local(i.shape.dims))


def one(
    e: Emitter, i: Instruction, tiles: Tiles, operands: Iterable[PartitionedValue], **changed: Any
) -> list[PartitionedValue]:
    """The operator on parts, as the one part that results."""
    return [PartitionedValue(like(e, i, _local(i, tiles), [p.value for p in operands], **changed), tiles)]


def elementwise(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    """Operands are cut as the result is; scalars are not."""
    wanted = [want] * len(parts)
    if want.unreduced and i.opcode in ("multiply", "divide"):  # only one factor is a sum
        term = next((k for k, p in enumerate(parts) if p.tiles.unreduced), 0)
        wanted = [want if k == term else want.settled for k in range(len(parts))]
    same = [e.reshard(p, t) if len(p.tiles.dims) == len(t.dims) else p for p, t in zip(parts, wanted, strict=True)]
    return one(e, i, want, same)


LINEAR = frozenset({"add", "convert", "copy", "divide", "dot", "multiply", "negate", "reduce", "subtract"})
LINEAR |= {"dynamic-update-slice", "reshape", "scatter", "transpose"}
"""Operators whose rules take and give terms of sums."""


@rule("constant")
def _constant(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue] | None:
    if not i.shape.is_array:
        return None
    value = i.literal.value
    if i.shape.size and not want.is_whole and (value == value.reshape(-1)[0]).all():
        return [PartitionedValue(e.splat(_local(i, want), value.reshape(-1)[0]), want)]
    return None


@rule("iota")
def _iota(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    (dim,) = (i["iota_dimension"],)
    found = one(e, i, want, [])
    if not want.dims[dim]:
        return found
    shape = found[0].shape
    offset = e.offset(want.dims[dim], shape.dims[dim])
    start = e.make("convert", array_shape(shape.dtype, ()), [offset])
    moved = e.make("broadcast", shape, [start], dimensions=())
    return [PartitionedValue(e.make("add", shape, [found[0].value, moved]), want)]


@rule("broadcast")
def _broadcast(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    (part,) = parts
    source = Tiles(tuple(want.dims[d] for d in i["dimensions"]))
    return one(e, i, want, [e.reshard(part, source)])


@rule("transpose")
def _transpose(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    source: list[Factors] = [()] * i.shape.rank
    for result, operand in enumerate(i["dimensions"]):
        source[operand] = want.dims[result]
    return one(e, i, want, [e.reshard(parts[0], Tiles(tuple(source), want.unreduced))])


@rule("reshape")
def _reshape(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    """A cut goes through where it cuts the first of dimensions that become one, or of those that one becomes."""
    before, after = i.operands[0].shape.dims, i.shape.dims
    source: list[Factors] = [()] * len(before)
    target: list[Factors] = [()] * len(after)
    used: set[Factor] = set(want.unreduced)
    for old, new in _runs(before, after):
        first_old = next((d for d in old if before[d] != 1), None)
        first_new = next((d for d in new if after[d] != 1), None)
        if first_old is None or first_new is None:
            continue
        kept: Factors = ()
        for factor in want.dims[first_new] or parts[0].tiles.dims[first_old]:
            n = extent(kept) * factor.size
            if factor in used or not are_independent(used, [factor]) or before[first_old] % n or after[first_new] % n:
                break
            kept += (factor,)
            used.add(factor)
        source[first_old] = target[first_new] = kept
    through = Tiles(tuple(target), want.unreduced)
    found = one(e, i, through, [e.reshard(parts[0], Tiles(tuple(source), want.unreduced))])
    # without a word the result stays as the operand is cut
    return found if i.sharding is None else [e.reshard(found[0], want)]


def _runs(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Dimensions that hold the same elements on both sides."""
    found: list[tuple[list[int], list[int]]] = []
    if 0 in before:
        return found
    a = b = 0
    while a < len(before) or b < len(after):
        old, new, left, right = [], [], 1, 1
        while not (old or new) or left != right:
            if (left <= right and a < len(before)) or b == len(after):
                left *= before[a]
                old.append(a)
                a += 1
            else:
                right *= after[b]
                new.append(b)
                b += 1
        found.append((old, new))
    return found


def _open(want: Tiles, dims: Iterable[int]) -> Tiles:
    """`want`, but for the given dimensions, which are whole."""
    for d in dims:
        want = want.with_dim(d, ())
    return want


@rule("reverse")
def _reverse(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    tiles = _open(want, i["dimensions"])
    return [e.reshard(p, want) for p in one(e, i, tiles, [e.reshard(parts[0], tiles)])]


@rule("concatenate")
def _concatenate(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    tiles = _open(want, i["dimensions"])
    return [e.reshard(p, want) for p in one(e, i, tiles, [e.reshard(p, tiles) for p in parts])]


@rule("slice")
def _slice(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    dims = i.operands[0].shape.dims
    moved = [d for d, s in enumerate(i["slice"]) if s != SliceDimension(0, dims[d], 1)]
    if i.sharding is None:  # the converter makes slices of gathers, and says nothing about them
        want = _open(parts[0].tiles, moved)
    tiles = _open(want, moved)
    part = e.reshard(parts[0], tiles)
    local = part.shape.dims
    cut = tuple(SliceDimension(0, local[d], 1) if tiles.dims[d] else s for d, s in enumerate(i["slice"]))
    return [e.reshard(one(e, i, tiles, [part], slice=cut)[0], want)]


@rule("pad")
def _pad(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    tiles = _open(want, [d for d, p in enumerate(i["padding"]) if (p.low, p.high, p.interior) != (0, 0, 0)])
    return [e.reshard(one(e, i, tiles, [e.reshard(parts[0], tiles), parts[1]])[0], want)]


@rule("dynamic-slice")
def _dynamic_slice(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    dims, sizes = i.operands[0].shape.dims, i["dynamic_slice_sizes"]
    tiles = _open(want, [d for d, size in enumerate(sizes) if size != dims[d]])
    operands = [e.reshard(parts[0], tiles), *(e.whole(p) for p in parts[1:])]
    found = one(e, i, tiles, operands, dynamic_slice_sizes=tiles.local(sizes))
    return [e.reshard(found[0], want)]


@rule("dynamic-update-slice")
def _dynamic_update_slice(
    i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter
) -> list[PartitionedValue]:
    dims, update = i.shape.dims, i.operands[1].shape.dims
    tiles = _open(want, [d for d in range(len(dims)) if update[d] != dims[d]])
    operands = [e.reshard(p, tiles) for p in parts[:2]]
    return [e.reshard(one(e, i, tiles, [*operands, *map(e.whole, parts[2:])])[0], want)]


# -- sums
_IDENTITY = {
    "add": lambda dtype: 0,
    "multiply": lambda dtype: 1,
    "or": lambda dtype: 0,
    "and": lambda dtype: True if dtype.kind is Kind.PRED else None,
}


def combines(region: Computation) -> str | None:
    """The opcode of a region that is one operator on its two parameters."""
    root = region.root
    plain = {o.opcode for o in root.operands} == {"parameter"} and len(set(root.operands)) == 2
    return root.opcode if plain and len(root.operands) == 2 else None


def _starts_at_identity(i: Instruction, opcode: str) -> bool:
    init = i.operands[1]
    if opcode in ("maximum", "minimum"):
        return True  # combining with the same value twice changes nothing
    while init.opcode in ("copy", "broadcast", "reshape"):
        (init,) = init.operands
    wanted = _IDENTITY[opcode](init.shape.dtype) if opcode in _IDENTITY else None
    return init.opcode == "constant" and wanted is not None and bool(init.literal.value == wanted)


@rule("reduce")
def _reduce(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    count = len(parts) // 2
    gone = i["dimensions"]
    rank = parts[0].shape.rank
    kept = [d for d in range(rank) if d not in gone]
    dims: list[Factors] = [()] * rank
    for result, d in enumerate(kept):
        dims[d] = want.dims[result]
    opcode = combines(i["to_apply"]) if count == 1 else None
    across: Factors = ()
    if opcode is not None and _starts_at_identity(i, opcode):
        used = set(want.used)
        for d in gone:
            own = parts[0].tiles.dims[d]
            if own and not used & set(own) and are_independent(used, own, across):
                dims[d] = own
                used |= set(own)
                across += own
    tiles = Tiles(tuple(dims))
    operands = [e.reshard(p, tiles) for p in parts[:count]] + [e.whole(p) for p in parts[count:]]
    shapes = [array_shape(s.dtype, want.local(s.dims)) for s in _leaves(i.shape)]
    found = like(e, i, i.shape if i.shape.is_tuple else shapes[0], [p.value for p in operands])
    if i.shape.is_tuple:
        return elements(e, found, shapes, [want.settled] * count)
    if opcode == "add":
        return [e.reshard(PartitionedValue(found, Tiles(want.dims, across)), want)]
    return [e.reshard(e.reduce(PartitionedValue(found, want.settled), across, i["to_apply"]), want)]


def _leaves(shape: Shape) -> list[Shape]:
    return list(shape.elements) if shape.is_tuple else [shape]


def elements(e: Emitter, found: Instruction, shapes: Sequence[Shape], tiles: Sequence[Tiles]) -> list[PartitionedValue]:
    """The parts that an operator with several results gives, which gets the shape of their tuple."""
    found.shape = tuple_shape(shapes)
    return [
        PartitionedValue(e.make("get-tuple-element", s, [found], index=k), t)
        for k, (s, t) in enumerate(zip(shapes, tiles, strict=True))
    ]


@rule("dot")
def _dot(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    left, right = parts
    sides = []
    batch = i["lhs_batch_dims"], i["rhs_batch_dims"]
    contracted = i["lhs_contracting_dims"], i["rhs_contracting_dims"]
    place = len(batch[0])
    for k, part in enumerate(parts):
        dims: list[Factors] = [()] * part.shape.rank
        for n, d in enumerate(batch[k]):
            dims[d] = want.dims[n]
        for d in range(part.shape.rank):
            if d not in batch[k] and d not in contracted[k]:
                dims[d] = want.dims[place]
                place += 1
        sides.append(dims)
    used, across = set(want.used), ()
    for a, b in zip(*contracted, strict=True):
        for own in (left.tiles.dims[a], right.tiles.dims[b]):
            if own and not used & set(own) and are_independent(used, own, across):
                sides[0][a] = sides[1][b] = own
                used |= set(own)
                across += own
                break
    operands = [e.reshard(p, Tiles(tuple(dims))) for p, dims in zip(parts, sides, strict=True)]
    (found,) = one(e, i, want, operands)
    return [e.reshard(PartitionedValue(found.value, Tiles(want.dims, across)), want)]


@rule("convolution")
def _convolution(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    """Batches and output features are independent of each other."""
    labels = i["dim_labels"]
    groups, batches = i.attrs.get("feature_group_count", 1), i.attrs.get("batch_group_count", 1)
    rank = i.shape.rank
    tiles = _open(want, [d for d in range(rank) if d not in (labels.output_batch, labels.output_feature)])
    if batches != 1:
        tiles = Tiles.whole(rank)
    if groups != 1:
        tiles = tiles.with_dim(labels.output_feature, ())
    image = Tiles.whole(rank).with_dim(labels.input_batch, tiles.dims[labels.output_batch])
    kernel = Tiles.whole(rank).with_dim(labels.kernel_output_feature, tiles.dims[labels.output_feature])
    found = one(e, i, tiles, [e.reshard(parts[0], image), e.reshard(parts[1], kernel)])
    return [e.reshard(found[0], want)]


# -- operators that treat some dimensions as a batch
def _batched(
    i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter, whole: Iterable[int]
) -> list[PartitionedValue]:
    """All arrays have the result's rank, and the dimensions that are not `whole` mean the same in all."""
    tiles = _open(want, whole)
    operands = [e.reshard(p, tiles) if p.tiles.dims else p for p in parts]
    if not i.shape.is_tuple:
        return [e.reshard(one(e, i, tiles, operands)[0], want)]
    shapes = [array_shape(s.dtype, tiles.local(s.dims)) for s in i.shape.elements]
    found = like(e, i, i.shape, [p.value for p in operands])
    return [e.reshard(p, want) for p in elements(e, found, shapes, [tiles] * len(shapes))]


@rule("sort")
def _sort(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    return _batched(i, parts, want, e, i["dimensions"])


@rule("topk")
def _top_k(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    return _batched(i, parts, want, e, [len(want.dims) - 1])


@rule("cholesky", "triangular-solve")
def _matrices(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    rank = i.shape.rank
    return _batched(i, parts, want, e, [rank - 2, rank - 1])


@rule("fft")
def _fft(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    rank = i.shape.rank
    return _batched(i, parts, want, e, range(rank - len(i["fft_length"]), rank))


@rule("reduce-window")
def _reduce_window(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    whole = [d for d, w in enumerate(i["window"]) if (w.size, w.stride, w.padding_low, w.padding_high) != (1, 1, 0, 0)]
    return _batched(i, parts, want, e, whole)


# -- collectives of manual regions, whose values other axes may cut
@rule("all-reduce", "collective-permute", "collective-broadcast")
def _alike(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    attrs = {"channel_id": e.channels.take()} if i.attrs.get("channel_id") is not None else {}
    if not i.shape.is_tuple:
        return one(e, i, want, [e.reshard(parts[0], want)], **attrs)
    found = like(e, i, i.shape, [p.value for p in parts], **attrs)
    return elements(e, found, [p.shape for p in parts], [p.tiles for p in parts])


@rule("all-gather", "reduce-scatter", "all-to-all")
def _along(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue] | None:
    if i.shape.is_tuple or not i["dimensions"]:
        return None
    attrs = {"channel_id": e.channels.take()} if i.attrs.get("channel_id") is not None else {}
    tiles = _open(want, i["dimensions"])
    return [e.reshard(one(e, i, tiles, [e.reshard(parts[0], tiles)], **attrs)[0], want)]
