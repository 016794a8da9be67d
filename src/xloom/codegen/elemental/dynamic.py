"""Slices and gathers: elements at indices that depend on data."""

from __future__ import annotations

from xloom.codegen.elemental.lowering import IndexTuple, Tracer, element_of
from xloom.codegen.loop_ir.affine import Affine, constant
from xloom.codegen.loop_ir.nodes import Node
from xloom.hlo.instruction import Instruction
from xloom.trampoline import Nested, each


def starts_of(t: Tracer, indices: list[Instruction], limits: list[int]) -> Nested[list[Affine]]:
    """Run-time starts, clamped to [0, limit]; the older form is one vector."""
    if len(indices) == 1 and indices[0].shape.rank == 1:
        elements = [(indices[0], (constant(k),)) for k in range(len(limits))]
    else:
        elements = [(i, ()) for i in indices]
    nodes = yield each(t.element(*element) for element in elements)
    return [t.bounded(node, high) for node, high in zip(nodes, limits, strict=True)]


@element_of("dynamic-slice")
def dynamic_slice(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """Starts are clamped so that the slice fits."""
    operand, *indices = instruction._operands
    limits = [d - n for d, n in zip(operand.shape.dims, instruction["dynamic_slice_sizes"], strict=True)]
    starts = yield starts_of(t, indices, limits)
    return (yield t.element(operand, tuple(s + i for s, i in zip(starts, index, strict=True))))


@element_of("gather")
def gather(t: Tracer, instruction: Instruction, index: IndexTuple) -> Nested[Node]:
    """The operand's element in the slice that an index vector starts, clamped so that the slice fits."""
    operand, indices = instruction._operands
    at, sizes, offset = instruction["index_vector_dim"], instruction["slice_sizes"], instruction["offset_dims"]
    batch = [i for d, i in enumerate(index) if d not in offset]
    window = iter([index[d] for d in offset])
    left_out = {*instruction["collapsed_slice_dims"], *instruction["operand_batching_dims"]}
    operand_index: list[Affine] = [constant(0) if d in left_out else next(window) for d in range(operand.shape.rank)]
    # where the batch dimensions of the result are among those of the indices
    dims = [d for d in range(indices.shape.rank) if d != at]
    for d, k in zip(instruction["operand_batching_dims"], instruction["start_indices_batching_dims"], strict=True):
        operand_index[d] = batch[dims.index(k)]
    for k, d in enumerate(instruction["start_index_map"]):
        vector = list(batch)
        if at < indices.shape.rank:
            vector.insert(at, constant(k))
        start = t.bounded((yield t.element(indices, tuple(vector))), operand.shape.dims[d] - sizes[d])
        operand_index[d] = operand_index[d] + start
    return (yield t.element(operand, tuple(operand_index)))
