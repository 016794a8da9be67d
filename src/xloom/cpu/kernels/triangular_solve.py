"""Triangular systems, by substitution on strips of columns."""

from __future__ import annotations

import math

from xloom.cpu.emit.loop import loop
from xloom.cpu.emit.types import I1, I64, element_pointer
from xloom.cpu.kernel import Kernel, kernel
from xloom.cpu.kernels.linear.substitution import Substitution, widest
from xloom.cpu.kernels.linear.transposition import transpose
from xloom.hlo.instruction import Instruction

_FLOPS = 1_000_000
"""Of one thread in about 20 µs."""
_FEW_ROWS = 256


@kernel("triangular-solve")
def triangular_solve(kernel: Kernel, instruction: Instruction) -> None:
    """a x = b or x a = b; of a, one triangle is read. x a = b is solved as a^T x^T = b^T."""
    matrix, right = kernel.operands
    dtype, batch = right.dtype, math.prod(right.dims[:-2])
    left = instruction["left_side"]
    n = matrix.dims[-1]
    m = right.dims[-1 if left else -2]
    if not right.size:
        return
    transposed = (instruction["transpose_a"] in ("TRANSPOSE", "ADJOINT")) == left
    lower = instruction["lower"] != transposed
    lanes, vectors = widest(dtype, m)
    solution = Substitution(lanes, vectors, instruction["transpose_a"] == "ADJOINT", instruction["unit_diagonal"])
    # strips have full width: the last one does some columns of the one before again
    strips = -(-m // solution.columns)
    function = solution.emit(kernel.module, f"{kernel.name}.substitute")
    places = [kernel.add_scratch(right.nbytes) for _ in range(0 if left else 2)]
    # neighbouring rows of a strip lie far apart: many of them would share few places of the cache
    packed = kernel.add_scratch(batch * strips * n * solution.columns * dtype.bytes) if n > _FEW_ROWS else None
    if not left:
        transpose(kernel, dtype, (batch, m, n), lambda p: (p.operand(1), p.scratch(places[0])))
    with kernel.phase(batch * strips, max(1, _FLOPS // (n * n * solution.columns))) as p:
        b = p.b
        given, found = (p.operand(1), p.output(0)) if left else map(p.scratch, places)
        steps = (1, n, m) if transposed else (n, 1, m)
        sign = 1 if lower else -1  # an upper triangle from its last row upwards
        row_step, column_step, step = (I64(sign * s) for s in steps)
        with loop(b, p.begin, p.end) as item:
            number = b.udiv(item, I64(strips))
            first = b.mul(b.sub(item, b.mul(number, I64(strips))), I64(solution.columns))
            first = b.select(b.icmp_signed("<", first, I64(m - solution.columns)), first, I64(m - solution.columns))
            a = element_pointer(
                b, p.operand(0), dtype, b.add(b.mul(number, I64(n * n)), I64(0 if lower else n * n - 1))
            )
            place = b.add(b.mul(number, I64(n * m)), first)
            place = b.add(place, I64(0 if lower else (n - 1) * m))
            y, x = (element_pointer(b, pointer, dtype, place) for pointer in (given, found))
            near, near_step = x, step
            if packed is not None:
                near = element_pointer(b, p.scratch(packed), dtype, b.mul(item, I64(n * solution.columns)))
                near_step = I64(solution.columns)
            b.call(function, [a, row_step, column_step, y, step, near, near_step, I1(1), I64(0), I64(n)])
            if packed is not None:
                with loop(b, 0, n) as row:
                    source, target = b.mul(row, near_step), b.mul(row, step)
                    for k in range(0, solution.columns, lanes.count):
                        lanes.store(b, x, b.add(target, I64(k)), lanes.load(b, near, b.add(source, I64(k))))
    if not left:
        transpose(kernel, dtype, (batch, n, m), lambda p: (p.scratch(places[1]), p.output(0)))
