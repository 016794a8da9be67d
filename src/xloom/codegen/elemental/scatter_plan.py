"""How a scatter goes through its indices, updates and operand: loops with constant strides, on any target."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.llvm.strided_loops import Dimension, merged, row_major


class ScatterPlan:
    """The walk, all constant.

    `batches` and `updates` have strides of indices, updates and operand, `window` of operand and updates.
    """

    def __init__(self, instruction: Instruction):
        operands = [o.shape for o in instruction._operands]
        self.count = len(operands) // 2
        target, indices, updates = operands[0], operands[self.count], operands[self.count + 1]
        at = instruction["index_vector_dim"]
        self.strides = row_major(target.dims)
        index_strides, update_strides = row_major(indices.dims), row_major(updates.dims)

        window_dims = sorted(instruction["update_window_dims"])
        batching = instruction["input_batching_dims"]
        left_out = {*instruction["inserted_window_dims"], *batching}
        kept = [d for d in range(target.rank) if d not in left_out]
        extent = [1] * target.rank
        for d, k in zip(kept, window_dims, strict=True):
            extent[d] = updates.dims[k]
        self.window = merged(
            [Dimension(extent[d], (self.strides[d], update_strides[k])) for d, k in zip(kept, window_dims, strict=True)]
        )
        # where the numbers of a vector go: operand dimension, place in memory, greatest start that fits
        step = index_strides[at] if at < indices.rank else 0
        index_offsets = {d: column * step for column, d in enumerate(instruction["scatter_dims_to_operand_dims"])}
        self.starts = [(d, index_offset, target.dims[d] - extent[d]) for d, index_offset in index_offsets.items()]

        batch = [k for k in range(indices.rank) if k != at]
        outer = [k for k in range(updates.rank) if k not in window_dims]
        walk = {
            k: Dimension(indices.dims[k], (index_strides[k], update_strides[u], 0))
            for k, u in zip(batch, outer, strict=True)
        }
        # a batching dimension moves in the operand too, and elements of different batches never meet
        for k, d in zip(instruction["scatter_indices_batching_dims"], batching, strict=True):
            walk[k] = walk[k]._replace(strides=(*walk[k].strides[:2], self.strides[d]))
        self.batches = merged([d for d in walk.values() if d.strides[2]])
        self.updates = merged([d for d in walk.values() if not d.strides[2]])
        alone = [(self.strides[d], d, limit + 1) for d, _, limit in self.starts if extent[d] == 1]
        _, self.owned, self.owned_size = max(alone, default=(0, -1, 0))
        """The slowest dimension in which an update has size 1, and how many indices it has there."""
        self.is_empty = any(0 in s.dims for s in (target, updates))
