"""NaN, where zeros around and between the elements of the input meet what is not finite in the kernel.

Which of these zeros are multiplied depends on the order of summation. To a finite kernel it makes no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.convolution.geometry import Convolution
from xloom.cpu.kernels.convolution.nan_propagation import NUMBERS, PLACE_NUMBERS, ROUTINE, Spoiling
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import rolled
from xloom.hlo.attributes import Window, WindowDimension
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.symbolic_dimension import greatest
from xloom.llvm.types import element_pointer, i64


def multiply_zeros(
    kernel: Kernel,
    arithmetic: Arithmetic,
    problem: Convolution,
    window: Window,
    sizes: Sequence[tuple[Any, Any]],
    arrays: tuple[Array, Array],
) -> None:
    """A phase over the features of the output `y`; `sizes` are how many input and output have, by dimension.

    Where some outputs meet, between them, all places of the window in elements, they say whether the kernel is finite.
    """
    w, y = arrays
    spoiling = Spoiling(w.dtype, y.dtype)
    seen = [_seen(d, *n) for d, n in zip(window, sizes, strict=True)]
    known = [some for some in seen if some is not None]
    is_seen = len(known) == len(seen) and arithmetic.stores(y.dtype)
    panels = problem.group.size if problem.in_panels else 1
    features, taps = problem.group.size * problem.output.size // panels, prod(d.size for d in window)
    words = arithmetic.parts
    numbers = {
        "features": features,
        "inputs": problem.feature.size,
        "images": problem.batch.size,
        "w_base": problem.w_base * words,
        "w_feature": problem.output.b * words,
        "w_input": problem.feature.b * words,
        "y_feature": problem.output.c * words,
        "y_image": problem.batch.c * words,
        "rank": len(window),
        "taps": taps,
        "rows": taps * problem.feature.size // problem.output.b,
        "lines": prod(outputs for _, outputs in sizes[:-1]),
        "seen": prod(count for _, count in known) if is_seen else 0,
    }
    row = [numbers[name] for name in NUMBERS]
    dims = zip(window, problem.taps, sizes, seen, strict=True)
    for d, axis, (inputs, outputs), some in reversed(list(dims)):
        first, count = some or (0, 0)
        numbers = {
            "size": d.size,
            "w_step": axis.b * words,
            "y_step": axis.c * words,
            "stride": d.stride,
            "spread": d.window_dilation,
            "before": d.padding_low,
            "extent": inputs * d.base_dilation,
            "dilation": d.base_dilation,
            "outputs": outputs,
            "seen_first": first,
            "seen_count": count,
        }
        row += [numbers[name] for name in PLACE_NUMBERS]
    # code as it comes is made soonest, and little of it runs
    kernel.need(spoiling.text(kernel.target), PassPipeline.CALLERS)
    of_feature = grain(2 * taps * problem.feature.size, arithmetic)
    if problem.in_panels:  # each by itself is a kernel
        with kernel.phase(panels, greatest(1, panels) if is_seen else of_feature) as phase:
            b, routine = phase.b, ir.Function(kernel.module, ROUTINE, spoiling.symbol)
            with rolled(b, phase.begin, phase.end, name="panel") as panel:
                at = (b.mul(panel, i64(stride)) for stride in (problem.group.b, problem.group.c))
                pointers = [element_pointer(b, a.pointer(phase), a.dtype, o) for a, o in zip(arrays, at, strict=True)]
                b.call(routine, [phase.numbers(row), *pointers, i64(0), i64(features)])
        return
    with kernel.phase(features, greatest(1, features) if is_seen else of_feature) as phase:
        routine = ir.Function(kernel.module, ROUTINE, spoiling.symbol)
        arrays_at = w.pointer(phase), y.pointer(phase)
        phase.b.call(routine, [phase.numbers(row), *arrays_at, phase.begin, phase.end])


def _seen(d: WindowDimension, inputs: Any, outputs: Any) -> tuple[int, int] | None:
    """Adjacent outputs of a dimension that meet all elements of the window in elements: the first, and how many."""
    common = gcd(d.stride, d.base_dilation)
    if any((d.padding_low - k * d.window_dilation) % common for k in range(min(d.size, common))):
        return None  # a place that meets only holes
    count = d.base_dilation // common
    first = max(0, -(-d.padding_low // d.stride))
    last = first + count - 1
    end = last * d.stride - d.padding_low + d.dilated_size
    if outputs > last and inputs * d.base_dilation >= end + d.base_dilation - 1:
        return first, count
    most = element = 0  # of the first outputs that meet a place, and of the elements that they meet
    for k in range(d.size):
        before = d.padding_low - k * d.window_dilation
        output = max(0, -(-before // d.stride))
        while (output * d.stride - before) % d.base_dilation:
            output += 1
        most = max(most, output)
        element = max(element, (output * d.stride - before) // d.base_dilation)
    return (0, most + 1) if outputs > most and inputs > element else None
