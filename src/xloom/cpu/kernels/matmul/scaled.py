"""An operand whose blocks are multiplied by a scale each."""

from __future__ import annotations

from math import prod

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, digits, offset, row_major
from xloom.cpu.kernels.matmul.operands import Array, new_array
from xloom.cpu.kernels.matmul.tile import rolled
from xloom.hlo.shape import Shape
from xloom.llvm.element_access import load, store
from xloom.llvm.scalar.conversion import converted
from xloom.llvm.types import i64

_GRAIN = 1 << 12
"""Elements that are multiplied by their scales in about 20 µs, at a division for each index."""


def scaled(kernel: Kernel, arithmetic: Arithmetic, shape: Shape, scales: Shape, operand: int, scale: int) -> Array:
    """A phase that makes a copy, in the accumulator's type, of an operand times its scales: one scale, or blocks."""
    copy, dtype = new_array(kernel, arithmetic.dtype, prod(shape.dims)), arithmetic.dtype
    axes = [Axis(n, 0, 0, 0) for n in shape.dims]
    blocks = [Axis(1, s, 0, 0) for s in row_major(scales.dims)]
    lengths = [n // max(1, m) for n, m in zip(shape.dims, scales.dims, strict=False)]
    with kernel.phase(prod(shape.dims), _GRAIN) as phase:
        b = phase.b
        with rolled(b, phase.begin, phase.end) as i:
            position = digits(b, axes, i)[: scales.rank]
            block = [b.udiv(at, i64(max(1, n))) for at, n in zip(position, lengths, strict=True)]
            values = [
                converted(b, load(b, phase.operand(k), s.dtype, at), s.dtype, dtype)
                for k, s, at in ((operand, shape, i), (scale, scales, offset(b, blocks, block, "a")))
            ]
            product = arithmetic.multiply_add(b, [values[0]], [values[1]], arithmetic.zero(1))
            store(b, copy.pointer(phase), dtype, i, product[0])
    return copy
