"""Triangular systems, by substitution on strips of columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernel_modules.form import ShapeGenericProblem, form, form_of
from xloom.cpu.kernel_modules.kernel import Kernel, kernel
from xloom.cpu.kernels.linalg.substitution import Substitution, widest
from xloom.cpu.kernels.linalg.tile_transpose import transpose
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.loop import loop
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.symbolic_dimension import greatest
from xloom.llvm.target import Target
from xloom.llvm.types import I1, I64, element_pointer, i64

_FLOPS = 1_000_000
"""Of one thread in about 20 µs."""
_FEW_ROWS = 256
"""Rows whose strips need not be packed."""


@dataclass(frozen=True)
class _Systems:
    """`batch` systems of n equations, each for m right sides; T's elements are strides apart, as substitution goes."""

    batch: Any
    n: Any
    m: Any
    row_stride: Any
    column_stride: Any
    solution_stride: Any
    """From a row of the solution to the next."""
    first: Any
    """T's first element."""
    start: Any
    """The first row of the solution."""

    @staticmethod
    def of(instruction: Instruction, right: Shape, size: Callable[[int], Any] = int) -> _Systems:
        """The systems of an instruction, with `size` of each number."""
        n, m = right.dims[-2:] if instruction["left_side"] else right.dims[:-3:-1]
        row, column = (1, n) if _is_transposed(instruction) else (n, 1)
        # an upper triangle from its last row upwards
        lower = instruction["lower"] != _is_transposed(instruction)
        sign, first, start = (1, 0, 0) if lower else (-1, n * n - 1, (n - 1) * m)
        numbers = (math.prod(right.dims[:-2]), n, m, sign * row, sign * column, sign * m, first, start)
        return _Systems(*map(size, numbers))


def _is_transposed(instruction: Instruction) -> bool:
    return (instruction["transpose_a"] in ("TRANSPOSE", "ADJOINT")) == instruction["left_side"]


def solves_in_place(instruction: Instruction, target: Target) -> bool:
    """True when the solution may lie where the right side does."""
    right = instruction.shape
    if not instruction["left_side"] or not right.size:
        return True
    lanes, vectors = widest(right.dtype, right.dims[-1], target)
    return right.dims[-1] % (lanes.count * vectors) == 0


@form_of("triangular-solve")
def triangular_solve_form(instruction: Instruction, shapes: Sequence[Shape], target: Target) -> ShapeGenericProblem:
    """Which triangle it is, and whether transposed, are strides."""
    right = shapes[1]
    conjugate = instruction["transpose_a"] == "ADJOINT"
    text = ("triangular-solve", right.dtype.name, instruction["left_side"], conjugate, instruction["unit_diagonal"])
    return form(repr(text), lambda size: _Systems.of(instruction, right, size))


@kernel("triangular-solve")
def triangular_solve(kernel: Kernel, instruction: Instruction) -> None:
    """a x = b or x a = b; of a, one triangle is read. x a = b is solved as a^T x^T = b^T."""
    kernel.pipeline = PassPipeline.VECTORS
    right, left = kernel.operands[1], instruction["left_side"]
    dtype = right.dtype
    systems: _Systems = kernel.problem or _Systems.of(instruction, right)
    batch, n, m = systems.batch, systems.n, systems.m
    if not batch * n * m:
        return
    lanes, vectors = widest(dtype, m, kernel.target)
    solution = Substitution(lanes, vectors, instruction["transpose_a"] == "ADJOINT", instruction["unit_diagonal"])
    # strips have full width: the last one does some columns of the one before again
    strips = -(-m // solution.columns)
    chosen(
        f"substitution in strips of {solution.columns} right sides, which threads share",
        "right sides are independent" + ("" if left else "; x a = b is solved transposed"),
    )
    function = solution.emit(kernel.module, f"{kernel.name}.substitute")
    nbytes = batch * n * m * dtype.bytes
    scratch_numbers = [] if left else [kernel.add_scratch(nbytes)] * 2
    if scratch_numbers and m % solution.columns:
        scratch_numbers[1] = kernel.add_scratch(nbytes)
    packed = None
    if n > _FEW_ROWS:
        # neighbouring rows of a strip lie far apart: many of them would share few places of the cache
        packed = kernel.add_scratch(batch * strips * n * (solution.columns * dtype.bytes))
        chosen("strips are packed", f"more than {_FEW_ROWS} rows would share few places of the cache")
    if not left:
        transpose(kernel, dtype, (batch, m, n), lambda p: (p.operand(1), p.scratch(scratch_numbers[0])))
    with kernel.phase(batch * strips, greatest(1, _FLOPS // (n * n * solution.columns))) as p:
        b = p.b
        rhs, found = (p.operand(1), p.output(0)) if left else map(p.scratch, scratch_numbers)
        row_stride, column_stride, solution_stride = map(
            i64, (systems.row_stride, systems.column_stride, systems.solution_stride)
        )
        with loop(b, p.begin, p.end) as item:
            number = b.udiv(item, i64(strips))
            column = b.mul(b.sub(item, b.mul(number, i64(strips))), I64(solution.columns))
            last = i64(m - solution.columns)
            column = b.select(b.icmp_signed("<", column, last), column, last)
            a = element_pointer(b, p.operand(0), dtype, b.add(b.mul(number, i64(n * n)), i64(systems.first)))
            index = b.add(b.add(b.mul(number, i64(n * m)), column), i64(systems.start))
            y, x = (element_pointer(b, pointer, dtype, index) for pointer in (rhs, found))
            near, near_step = x, solution_stride
            if packed is not None:
                near = element_pointer(b, p.scratch(packed), dtype, b.mul(item, i64(n * solution.columns)))
                near_step = I64(solution.columns)
            b.call(function, [a, row_stride, column_stride, y, solution_stride, near, near_step, I1(1), I64(0), i64(n)])
            if packed is not None:
                with loop(b, 0, n) as row:
                    source, target = b.mul(row, near_step), b.mul(row, solution_stride)
                    for k in range(0, solution.columns, lanes.count):
                        lanes.store(b, x, b.add(target, I64(k)), lanes.load(b, near, b.add(source, I64(k))))
    if not left:
        transpose(kernel, dtype, (batch, n, m), lambda p: (p.scratch(scratch_numbers[1]), p.output(0)))
