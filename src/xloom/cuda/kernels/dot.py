"""Products and convolutions: in tiles through shared memory, by tensor cores where these have the operands' types."""

from __future__ import annotations

from xloom.codegen.elemental.loop_nests import nest_for
from xloom.cuda.kernel import KernelBuilder, blocks_for
from xloom.cuda.kernels import kernel
from xloom.cuda.kernels.product import Product
from xloom.cuda.kernels.tensor_core_tiles import TensorCoreTiles, suits, tensor_core_kind
from xloom.cuda.kernels.thread_tiles import ThreadTiles
from xloom.cuda.kernels.warpgroup_tiles import WarpgroupTiles, cut_for
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.instruction import Instruction

THIN = 8
"""Rows or columns of a product that is no work for tiles: its elements are reductions."""


@kernel("dot", "convolution")
def dot(lowering: ThunkLowering, instruction: Instruction) -> None:
    """One launch, or two for thin products and long sums; convolutions are products whose rows are gathered."""
    is_dot = instruction.opcode == "dot"
    product = Product.of_dot(instruction) if is_dot else Product.of_convolution(instruction)
    if min(product.m, product.n, product.k) < THIN or not instruction.shape.size:
        lowering.nest(nest_for([[instruction]], ()))
        return
    kind = tensor_core_kind(instruction)
    kind = kind if suits(product, kind) else ""
    cut = cut_for(product, kind, lowering.target) if kind else None
    if cut:
        tiles = WarpgroupTiles(instruction, product, kind, cut)
    else:
        tiles = TensorCoreTiles(instruction, product, kind) if kind else ThreadTiles(instruction, product)
    sums = tiles.sums if tiles.sums and tiles.sums.parts > 1 else None
    output = lowering.scratch(sums.nbytes) if sums else lowering.output()
    allocations = [lowering.operand(0), lowering.operand(1), output]
    arguments = list(dict.fromkeys(allocations))
    blocks = blocks_for(tiles.count, 1, most=1 << 30)
    builder = KernelBuilder(lowering.target, len(arguments), tiles.threads)
    tiles.emit(builder, [builder.pointers[arguments.index(a)] for a in allocations])
    lowering.launch(builder.finished(), blocks, arguments)
    if sums:
        sums.join(lowering, output, instruction.shape.dtype)
