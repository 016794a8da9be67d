"""gather and scatter, cut over devices."""

from __future__ import annotations

import math

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.partitioning.resharding import Emitter, PartitionedValue
from xloom.passes.partitioning.rules import combines, elements, like, one, rule
from xloom.passes.partitioning.tile_assignment import Factor, Factors, Tiles, are_independent, extent


@rule("gather")
def _gather(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    """Cuts of the indices go to the result, and those of dimensions that slices take whole or that are a batch."""
    operand_dims, sizes = i.operands[0].shape.dims, i["slice_sizes"]
    offsets, batching = i["offset_dims"], i["operand_batching_dims"]
    windows = [d for d in range(len(operand_dims)) if d not in i["collapsed_slice_dims"] and d not in batching]
    source: list[Factors] = [()] * len(operand_dims)
    local_sizes, tiles = list(sizes), want
    for result, d in zip(offsets, windows, strict=True):
        if sizes[d] == operand_dims[d]:
            source[d] = want.dims[result]
            local_sizes[d] //= extent(source[d])
        else:
            tiles = tiles.with_dim(result, ())
    index_dims = [tiles.dims[d] for d in range(i.shape.rank) if d not in offsets]
    if i["index_vector_dim"] < i.operands[1].shape.rank:
        index_dims.insert(i["index_vector_dim"], ())
    for d, index in zip(batching, i["start_indices_batching_dims"], strict=True):
        source[d] = index_dims[index]
    operands = [e.reshard(parts[0], Tiles(tuple(source))), e.reshard(parts[1], Tiles(tuple(index_dims)))]
    return [e.reshard(one(e, i, tiles, operands, slice_sizes=tuple(local_sizes))[0], want)]


@rule("scatter")
def _scatter(i: Instruction, parts: list[PartitionedValue], want: Tiles, e: Emitter) -> list[PartitionedValue]:
    """Cuts are those of dimensions that updates cover, or that are a batch.

    Of a sum, devices may also have terms, from updates of their own: where terms are wanted, or where gathering the
    updates is more than adding up the results.
    """
    count = len(parts) // 2
    arrays, indices, updates = parts[:count], parts[count], parts[count + 1 :]
    operand, update = i.operands[0].shape, i.operands[-1].shape
    inserted, batching, windows = i["inserted_window_dims"], i["input_batching_dims"], i["update_window_dims"]
    covered = [d for d in range(operand.rank) if d not in inserted and d not in batching]
    cut: list[Factors] = [()] * operand.rank
    update_cut: list[Factors] = [()] * update.rank
    for d, window in zip(covered, windows, strict=True):
        if operand.dims[d] == update.dims[window]:
            cut[d] = update_cut[window] = want.dims[d]
    index_cut: list[Factors] = [()] * i.operands[count].shape.rank
    for d, index in zip(batching, i["scatter_indices_batching_dims"], strict=True):
        cut[d] = index_cut[index] = want.dims[d]
    scattered = [d for d in range(update.rank) if d not in windows]
    numbering = [d for d in range(len(index_cut)) if d != i["index_vector_dim"]]
    is_sum = count == 1 and combines(i["to_apply"]) == "add"
    is_large = update.size > math.prod(want.local(operand.dims))
    used = {f for factors in cut for f in factors}
    across: Factors = ()
    for d, index in zip(scattered, numbering, strict=True):
        update_cut[d] = index_cut[index]
        if is_sum and index not in i["scatter_indices_batching_dims"]:
            given = updates[0].tiles.dims[d] or indices.tiles.dims[index]
            given = tuple(f for f in given if is_large or f in want.unreduced)
            given += tuple(f for f in want.unreduced if f not in given)
            update_cut[d] = index_cut[index] = _independent(given, update.dims[d], used)
            used |= set(update_cut[d])
            across += update_cut[d]
    rest = tuple(f for f in want.unreduced if is_sum and f not in used)
    tiles = Tiles(tuple(cut), across + rest)
    operands = [e.reshard(p, tiles) for p in arrays]
    operands.append(e.reshard(indices, Tiles(tuple(index_cut))))
    operands += [e.reshard(p, Tiles(tuple(update_cut), rest)) for p in updates]
    if not i.shape.is_tuple:
        return [e.reshard(one(e, i, tiles, operands)[0], want)]
    shapes = [array_shape(s.dtype, tiles.local(s.dims)) for s in i.shape.elements]
    found = like(e, i, i.shape, [p.value for p in operands])
    return [e.reshard(p, want) for p in elements(e, found, shapes, [tiles] * len(shapes))]


def _independent(factors: Factors, size: int, used: set[Factor]) -> Factors:
    """Those that cut a dimension of `size` into equal parts, and are independent of the ones used."""
    kept: Factors = ()
    for factor in factors:
        if factor not in used and are_independent(used, kept, [factor]) and size % (extent(kept) * factor.size) == 0:
            kept += (factor,)
    return kept
