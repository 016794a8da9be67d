"""Small windows over images, their sums and averages and the greatest, for the library of kernels.

Code of many channels serves any number of them, that of few is for theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

_WINDOWS = ((2, 2), (2,))
"""Their sides; all lie two elements apart."""
_SIDE = 56
"""Of images, of which the code is for any."""
_CHANNELS, _BATCHES = (16, 32, 64, 96, 256), (1, 8)
"""Few channels that are usual, and many; one image, and several."""
_OPERATORS = (("add", "0", False), ("maximum", "-inf", False), ("add", "0", True))
"""What is computed of a window, of which initial value, and whether that is divided by how many elements it has."""


def windows() -> Iterator[str]:
    """The HLO text of each."""
    for sides, channels, batch in product(_WINDOWS, _CHANNELS, _BATCHES):
        for dtype, (opcode, initial, is_average) in product(("f32", "bf16", "f64"), _OPERATORS):
            yield _program(dtype, opcode, initial, sides, channels, batch, is_average)


def _program(
    dtype: str, opcode: str, initial: str, sides: tuple[int, ...], channels: int, batch: int, is_average: bool
) -> str:
    lengths = [_SIDE] * len(sides), [(_SIDE - side) // 2 + 1 for side in sides]
    dims, counts = (",".join(map(str, (batch, *each, channels))) for each in lengths)
    size, stride = ("x".join(map(str, (1, *each, 1))) for each in (sides, (2,) * len(sides)))
    average = (
        f" n = {dtype}[] constant({1 / prod(sides)})\n b = {dtype}[{counts}] broadcast(n), dimensions={{}}\n"
        f" m = {dtype}[{counts}] multiply(w, b)\n"
    )
    return (
        f"HloModule library\nf {{\n x = {dtype}[] parameter(0)\n y = {dtype}[] parameter(1)\n"
        f" ROOT r = {dtype}[] {opcode}(x, y)\n}}\nENTRY e {{\n a = {dtype}[{dims}] parameter(0)\n"
        f" i = {dtype}[] constant({initial})\n w = {dtype}[{counts}] reduce-window(a, i),"
        f" window={{size={size} stride={stride}}}, to_apply=f\n{average if is_average else ''}"
        f" ROOT r = {dtype}[{counts}] copy({'m' if is_average else 'w'})\n}}\n"
    )
