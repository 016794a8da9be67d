"""Gathers that a pattern may have: of one element along one dimension, all others equal; and those that take all."""

from __future__ import annotations

from dataclasses import dataclass

from xloom.hlo.instruction import Instruction
from xloom.passes.pattern.dims import Dims, normal
from xloom.passes.pattern.views import wide


@dataclass(frozen=True)
class Pick:
    """`result[b..., i...] = operand[b..., index[b..., i...]]`."""

    axis: int
    """The operand's dimension along which one element is taken."""
    of_operand: tuple[int | None, ...]
    """For each dimension of the result the operand's that it is, None where it is of the indices alone."""
    of_indices: tuple[int, ...]
    """For each dimension of the result that of the indices."""

    def operand_dims(self, dimensions: tuple[int, ...]) -> tuple[int, ...]:
        """The operand's dimensions for some of the result's."""
        return tuple(k for d in dimensions if (k := self.of_operand[d]) is not None)

    def indices_dims(self, dimensions: tuple[int, ...]) -> tuple[int, ...]:
        """The dimensions of the indices for some of the result's."""
        return tuple(self.of_indices[d] for d in dimensions)


def pick_of(gather: Instruction) -> Pick | None:
    """What a gather picks; None if it takes more than one element, or along several dimensions."""
    operand, indices = (o.shape for o in gather.operands)
    axes = tuple(gather["start_index_map"])
    batching = tuple(gather["operand_batching_dims"] or ())
    if len(axes) != 1 or gather["offset_dims"] or set(batching) | set(axes) != set(range(operand.rank)):
        return None
    kept = [k for k in range(indices.rank) if k != gather["index_vector_dim"]]
    pairs: dict[int, int] = dict(zip(gather["start_indices_batching_dims"] or (), batching, strict=True))
    return Pick(axes[0], tuple(pairs.get(k) for k in kept), tuple(kept))


# gather(a, i) of slices as large as a == a, for starts are clamped
def dims_of_whole(gather: Instruction, dims: Dims) -> Dims | None:
    """The correspondence for the operand of a gather that takes all of it once; None for others."""
    result, operand = gather.shape, gather.operands[0].shape
    if tuple(gather["slice_sizes"]) != operand.dims or result.size != operand.size:
        return None
    moved = dict(zip(wide(result), wide(operand), strict=True))
    return normal(e._replace(program=tuple(moved[k] for k in e.program)) for e in dims)
