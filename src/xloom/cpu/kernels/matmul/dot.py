"""dot and its variants: sums of products over any dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xloom.cpu.kernel_modules.form import ShapeGenericProblem, form, form_of
from xloom.cpu.kernel_modules.kernel import Kernel, kernel
from xloom.cpu.kernels.matmul.axes import Axis, Product, merged, row_major
from xloom.hlo.dtype import DType, bf16, f16, f32
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.target import Target


@form_of("dot")
def dot_form(instruction: Instruction, shapes: Sequence[Shape], target: Target) -> ShapeGenericProblem:
    """The shape-generic problem of a dot: its axes, however many dimensions make them up."""
    product = product_of(instruction, *shapes[:2])
    text = repr(("dot", [s.dtype.name for s in shapes], instruction["algorithm"]))
    return form(text, product.opened)


@kernel("dot")
def dot(kernel: Kernel, instruction: Instruction) -> None:
    """Batch dimensions, then the rest of the left operand, then the rest of the right one."""
    # what writes a kernel is not imported where there is one that serves
    from xloom.cpu.kernels.matmul.multiply import multiply
    from xloom.cpu.kernels.matmul.operands import Array

    kernel.pipeline = PassPipeline.TILES
    lhs, rhs = kernel.operands
    through = _rounding(instruction)
    multiply(
        kernel,
        kernel.problem or product_of(instruction, lhs, rhs),
        Array("operand", 0, lhs.dtype, 0 in kernel.made),
        Array("operand", 1, rhs.dtype, 1 in kernel.made),
        Array("output", 0, kernel.outputs[0].dtype, has_epilogue=kernel.has_epilogue),
        tuple(through if x.dtype is f32 else None for x in (lhs, rhs)),
    )


@kernel("scaled-dot")
def scaled_dot(kernel: Kernel, instruction: Instruction) -> None:
    """dot of the first two operands, each multiplied by its scales first."""
    from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, accumulator
    from xloom.cpu.kernels.matmul.multiply import multiply
    from xloom.cpu.kernels.matmul.operands import Array
    from xloom.cpu.kernels.matmul.scaled import scaled

    lhs, rhs, *scales = kernel.operands
    result = kernel.outputs[0].dtype
    arithmetic = Arithmetic(accumulator(result), kernel.target)
    a, b = (scaled(kernel, arithmetic, x, scales[k], k, 2 + k) for k, x in enumerate((lhs, rhs)))
    multiply(kernel, product_of(instruction, lhs, rhs), a, b, Array("output", 0, result))


@kernel("ragged-dot")
def ragged_dot(kernel: Kernel, instruction: Instruction) -> None:
    """A dot a group of rows, of the depth, or of batches."""
    from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, accumulator
    from xloom.cpu.kernels.matmul.operands import Array, cleared, converted_array, new_array, readable
    from xloom.cpu.kernels.matmul.ragged import multiply_ragged, ragged_axes

    lhs, rhs, sizes = kernel.operands
    out = kernel.outputs[0]
    c, size = Array("output", 0, out.dtype), prod(out.dims)
    if 0 in (*lhs.dims, *rhs.dims, *sizes.dims, size):
        cleared(kernel, c, size)
        return
    arithmetic = Arithmetic(accumulator(out.dtype), kernel.target)
    a, b = (readable(kernel, arithmetic, Array("operand", k, x.dtype), prod(x.dims)) for k, x in enumerate((lhs, rhs)))
    sums = c if arithmetic.stores(out.dtype) else new_array(kernel, arithmetic.dtype, size)
    multiply_ragged(kernel, arithmetic, ragged_axes(instruction.attrs, lhs, rhs, sizes, out), a, b, sums)
    if sums is not c:
        converted_array(kernel, sums, size, c)


def product_of(instruction: Instruction, lhs: Shape, rhs: Shape) -> Product:
    """The dimension numbers of a dot as axes."""
    lb, rb = instruction["lhs_batch_dims"], instruction["rhs_batch_dims"]
    lc, rc = instruction["lhs_contracting_dims"], instruction["rhs_contracting_dims"]
    left = [k for k in range(lhs.rank) if k not in (*lb, *lc)]
    right = [k for k in range(rhs.rank) if k not in (*rb, *rc)]
    a, b = row_major(lhs.dims), row_major(rhs.dims)
    sizes = [lhs.dims[k] for k in (*lb, *left)] + [rhs.dims[k] for k in right]
    c = row_major(sizes)
    batch = [Axis(lhs.dims[x], a[x], b[y], s) for x, y, s in zip(lb, rb, c, strict=False)]
    rows = [Axis(lhs.dims[x], a[x], 0, s) for x, s in zip(left, c[len(lb) :], strict=False)]
    columns = [Axis(rhs.dims[y], 0, b[y], s) for y, s in zip(right, c[len(lb) + len(left) :], strict=True)]
    depth = [Axis(lhs.dims[x], a[x], b[y], 0) for x, y in zip(lc, rc, strict=True)]
    depth.sort(key=lambda x: (x.b, x.a), reverse=True)  # sums have no order: as the memory of an operand has it
    return Product(merged(batch), merged(rows), merged(columns), merged(depth))


def _rounding(instruction: Instruction) -> DType | None:
    """What the algorithm asks operands of f32 to be rounded to."""
    algorithm = instruction["algorithm"]
    if algorithm in ("dot_bf16_bf16_f32", "dot_bf16_bf16_bf16"):
        return bf16
    return f16 if algorithm in ("dot_f16_f16_f32", "dot_f16_f16_f16") else None
