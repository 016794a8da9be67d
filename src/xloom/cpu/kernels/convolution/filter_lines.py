"""A copy of a filter of few output features, in which what is summed for one of them lies together."""

from __future__ import annotations

from math import prod

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.convolution.geometry import Convolution
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, count, digits, row_major
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array, new_array
from xloom.cpu.kernels.matmul.tile import rolled
from xloom.llvm.types import i64


def in_lines(problem: Convolution) -> Convolution:
    """The problem with such a filter."""
    feature, taps = problem.feature, [t.size for t in problem.taps]
    each = prod(taps) * feature.size
    return problem._replace(
        group=problem.group._replace(b=problem.output.size * each),
        output=problem.output._replace(b=each),
        feature=feature._replace(b=1),
        taps=tuple(t._replace(b=n * feature.size) for t, n in zip(problem.taps, row_major(taps), strict=True)),
        w_base=0,
    )


def filter_in_lines(kernel: Kernel, arithmetic: Arithmetic, problem: Convolution, w: Array) -> Array:
    """A phase that makes the copy, [group][output][taps...][feature]."""
    feature = problem.feature
    axes = [Axis(a.size, a.b, 0, 0) for a in (problem.group, problem.output, *problem.taps)]
    lines = count(tuple(axes))
    copy = new_array(kernel, arithmetic.dtype, lines * feature.size)
    with kernel.phase(lines, grain(20 * feature.size, arithmetic)) as phase:
        b = phase.b
        source, target = w.pointer(phase), copy.pointer(phase)
        with rolled(b, phase.begin, phase.end, name="line") as line:
            at, to = i64(problem.w_base), b.mul(line, i64(feature.size))
            for axis, digit in zip(axes, digits(b, axes, line), strict=True):
                at = b.add(at, b.mul(digit, i64(axis.a)))
            with rolled(b, 0, feature.size, name="feature") as k:
                value = arithmetic.load(b, source, w.dtype, b.add(at, b.mul(k, i64(feature.b))), 1)
                arithmetic.store(b, target, copy.dtype, b.add(to, k), value)
    return copy
