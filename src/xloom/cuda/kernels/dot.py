"""Products and convolutions: in tiles through shared memory, by tensor cores where these have the operands' types."""

from __future__ import annotations

from xloom.codegen.elemental.loop_nests import nest_for
from xloom.cuda.attention import attention_of
from xloom.cuda.data_sheets import DATA_SHEETS
from xloom.cuda.kernel import KernelBuilder, blocks_for
from xloom.cuda.kernels import kernel
from xloom.cuda.kernels.attention import attention
from xloom.cuda.kernels.epilogue import Epilogue
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
    _multiplied(lowering, instruction, None)


@kernel("fusion")
def fused(lowering: ThunkLowering, fusion: Instruction) -> None:
    """Attention; or a product, and what is done to each of its sums before it is stored."""
    inside = fusion["calls"]
    found = attention_of(inside.root)
    if found is not None:
        attention(lowering, found, inside.root.shape.dtype)
        return
    product = next(i for i in inside if i.opcode in ("dot", "convolution"))
    inlined = {i for i in inside if i.opcode != "parameter" and i not in (product, inside.root)}
    _multiplied(lowering, product, Epilogue(inside.root, product, inlined))


def _multiplied(lowering: ThunkLowering, instruction: Instruction, epilogue: Epilogue | None) -> None:
    is_dot = instruction.opcode == "dot"
    product = Product.of_dot(instruction) if is_dot else Product.of_convolution(instruction)
    if min(product.m, product.n, product.k) < THIN or not instruction.shape.size:
        lowering.nest(nest_for([[epilogue.root]], epilogue.all) if epilogue else nest_for([[instruction]], ()))
        return
    tiles = _tiles(lowering, instruction, product, epilogue)
    sums = tiles.sums if tiles.sums and tiles.sums.parts > 1 else None
    output = lowering.scratch(sums.nbytes) if sums else lowering.output()
    read = [(operand, 0) for operand in instruction._operands]
    arrays = epilogue.arrays if epilogue and not sums else []
    places = [*map(lowering.of, read), output, *map(lowering.of, arrays)]
    arguments = list(dict.fromkeys(places))
    numbers = {value: arguments.index(place) for value, place in zip(arrays, places[3:], strict=True)}
    builder = KernelBuilder(lowering.target, len(arguments), tiles.threads)
    code = epilogue.code(builder, numbers, product) if epilogue and not sums else None
    tiles.emit(builder, [builder.pointers[arguments.index(place)] for place in places[:3]], code)
    builder.strategy += ", and what is done to each sum" * (code is not None)
    lowering.launch(builder.finished(), blocks_for(tiles.count, 1, most=1 << 30), arguments)
    if sums:
        sums.join(lowering, output, epilogue.dtype if epilogue else instruction.shape.dtype, product, epilogue)


def _tiles(
    lowering: ThunkLowering, instruction: Instruction, product: Product, epilogue: Epilogue | None
) -> WarpgroupTiles | TensorCoreTiles | ThreadTiles:
    kind = tensor_core_kind(instruction)
    rates = DATA_SHEETS[lowering.target.name].teraflops
    is_slow = kind == "f64" and rates["tensor f64"] <= rates["f64"]
    if not kind or is_slow or not suits(product, kind):
        return ThreadTiles(instruction, product, epilogue)
    cut = cut_for(product, kind, lowering.target)
    if cut:
        return WarpgroupTiles(instruction, product, kind, cut, epilogue)
    return TensorCoreTiles(instruction, product, kind, epilogue)
