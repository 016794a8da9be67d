"""NaN, where zeros around and between the elements of the input meet what is not finite in the kernel.

Which of these zeros are multiplied depends on the way that sums are formed. To a finite kernel it makes no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

from llvmlite import ir

from xloom.cpu.content import Content
from xloom.cpu.emit.loop import allocate
from xloom.cpu.emit.sizes import greatest
from xloom.cpu.emit.types import I64, i64
from xloom.cpu.kernel import Kernel
from xloom.cpu.kernels.convolve.geometry import Convolution
from xloom.cpu.kernels.convolve.spoiling import NUMBERS, PLACE_NUMBERS, ROUTINE, Spoiling
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, constant_vector
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.work import grain
from xloom.hlo.attributes import Window, WindowDimension


def multiply_zeros(
    kernel: Kernel,
    arithmetic: Arithmetic,
    problem: Convolution,
    window: Window,
    places: Sequence[tuple[Any, Any]],
    arrays: tuple[Array, Array],
) -> None:
    """A phase over the features of the output `y`; `places` are how many input and output have, by dimension.

    Where some outputs meet, between them, all places of the window in elements, they say whether the kernel is finite.
    """
    w, y = arrays
    features = problem.group.size * problem.output.size
    lanes = arithmetic.lanes if problem.output.b == 1 and features >= arithmetic.lanes else 1
    is_dilated = any(d.base_dilation > 1 for d in window)
    spoiling = Spoiling(w.dtype, y.dtype, len(window), lanes, lanes if problem.output.c == 1 else 1, is_dilated)
    seen = [_seen(d, *n) for d, n in zip(window, places, strict=True)]
    is_seen = None not in seen and arithmetic.stores(y.dtype)
    numbers = {
        "features": features,
        "inputs": problem.feature.size,
        "images": problem.batch.size,
        "w_base": problem.w_base,
        "w_feature": problem.output.b,
        "w_input": problem.feature.b,
        "y_feature": problem.output.c,
        "y_image": problem.batch.c,
        "is_seen": int(is_seen),
    }
    table = [numbers[name] for name in NUMBERS]
    for d, axis, (inputs, outputs), some in zip(window, problem.taps, places, seen, strict=True):
        begin, several = some or (0, 0)
        numbers = {
            "size": d.size,
            "w": axis.b,
            "y": axis.c,
            "stride": d.stride,
            "spread": d.window_dilation,
            "before": d.padding_low,
            "extent": inputs * d.base_dilation,
            "dilation": d.base_dilation,
            "outputs": outputs,
            "seen": begin,
            "seen_end": begin + several,
        }
        table += [numbers[name] for name in PLACE_NUMBERS]
    table += [0] * (-len(table) % 8)  # whole vectors: one by one, it would take longer to write than to look
    count = -(-features // lanes)
    work = 2 * prod(d.size for d in window) * problem.feature.size * lanes
    kernel.need(spoiling.text(), Content.ROUTINES)  # little of it runs unless something is not finite
    with kernel.phase(count, greatest(1, count) if is_seen else grain(work, arithmetic)) as phase:
        b = phase.b
        memory = allocate(b, ir.VectorType(I64, len(table)))
        b.store(constant_vector([n if isinstance(n, int) else 0 for n in table], I64), memory)
        for k, number in enumerate(table):
            if not isinstance(number, int):
                b.store(i64(number), b.gep(memory, [I64(k)], inbounds=True, source_etype=I64))
        routine = ir.Function(kernel.module, ROUTINE, spoiling.symbol)
        b.call(routine, [memory, w.pointer(phase), y.pointer(phase), phase.begin, phase.end])


def _seen(d: WindowDimension, inputs: Any, outputs: Any) -> tuple[int, int] | None:
    """Adjacent outputs of a dimension that meet all places of the window in elements: the first, and how many."""
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
