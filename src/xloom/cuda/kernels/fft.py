"""Discrete Fourier transforms: a launch for each dimension, two for a line that shared memory has no room for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cuda.kernels import kernel
from xloom.cuda.kernels.fft_lines import Lines, Places, points_of, transform
from xloom.cuda.kernels.item_threads import lower_by_items
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import DType, c64, c128
from xloom.hlo.instruction import Instruction

_SHARED = 32 << 10
"""Bytes of shared memory for the points of a block."""


@kernel("fft")
def fft(lowering: ThunkLowering, instruction: Instruction) -> None:
    """Inverse transforms divide by the number of points. Long lines of few factors are the processor's kernel."""
    shape, lengths = instruction.shape, instruction["fft_length"]
    dtype = c128 if shape.dtype.real.bits == 64 else c64
    if not shape.size or not instruction._operands[0].shape.size:
        return
    if any(cut(dtype, n) is None for n in lengths):
        lower_by_items(lowering, instruction)
        return
    _Transforms(lowering, instruction, dtype).launch()


def cut(dtype: DType, n: int) -> tuple[int, int] | None:
    """A length as the height and the width of a matrix: (n, 1) where shared memory has room for a line; None if both
    would be too long."""
    most = _SHARED // dtype.bytes
    if points_of(n) <= most:
        return n, 1
    return next(((n // w, w) for w in _divisors(n) if max(map(points_of, (w, n // w))) <= most), None)


@lru_cache(maxsize=64)
def _divisors(n: int) -> Sequence[int]:
    """Of n, up to its root, the greatest first."""
    return [d for d in range(math.isqrt(n), 1, -1) if n % d == 0]


class _Transforms:
    """The launches of an instruction."""

    def __init__(self, lowering: ThunkLowering, instruction: Instruction, dtype: DType):
        self._lowering, self._dtype = lowering, dtype
        self._kind, self._lengths = instruction["fft_type"], instruction["fft_length"]
        self._is_inverse = self._kind in ("IFFT", "IRFFT")
        dims = instruction.shape.dims
        self._outer = math.prod(dims[: len(dims) - len(self._lengths)])

    def launch(self) -> None:
        """The last dimension first, or last where its result is real."""
        lengths, source, output = self._lengths, self._lowering.operand(0), self._lowering.output()
        last = len(lengths) - 1
        order = [*range(last), last] if self._kind == "IRFFT" else [*range(last, -1, -1)]
        half = lengths[-1] // 2 + 1
        dims = [*lengths[:-1], lengths[-1] if self._kind in ("FFT", "IFFT") else half]
        for number, axis in enumerate(order):
            is_end = number == len(order) - 1
            target = output if is_end or self._kind != "IRFFT" else self._scratch(self._outer * math.prod(dims))
            inner = math.prod(dims[axis + 1 :]) if axis < last else 1
            lines = self._outer * math.prod(dims[:axis]) * inner
            form = self._kind if axis == last and self._kind in ("RFFT", "IRFFT") else ""
            self._along(lengths[axis], lines, inner, (source, target), form)
            source = target

    def _along(
        self, n: int, lines: int, inner: int, arrays: tuple[BufferAllocation, BufferAllocation], form: str
    ) -> None:
        """Transforms lines whose points lie `inner` apart; `form` is that of transforms from or to real ones."""
        source, target = arrays
        found = cut(self._dtype, n)
        assert found is not None
        height, width = found
        scale = 1 / n if self._is_inverse else 1.0
        forms = {"RFFT": ("real", "half"), "IRFFT": ("half", "real")}.get(form, ("", ""))
        read, written = (Places(n // 2 + 1 if f == "half" else n, inner, 0, inner, f) for f in forms)
        if width == 1:
            self._launch(Lines(n, lines, inner, read, written), (source, target), scale)
            return
        between = self._scratch(lines * n)
        columns = Places(read.period, width * inner, inner, inner, read.form)
        turned = Places(n, inner, height * inner, inner)
        self._launch(Lines(height, lines * width, width * inner, columns, turned, length=n), (source, between), 1.0)
        rows = Places(n, height * inner, inner, inner)
        ordered = Places(written.period, height * inner, inner, inner, written.form)
        whole = Lines(width, lines * height, height * inner, rows, ordered, length=n, turns=True)
        self._launch(whole, (between, target), scale)

    def _scratch(self, points: int) -> BufferAllocation:
        return self._lowering.scratch(points * self._dtype.bytes)

    def _launch(self, lines: Lines, arrays: tuple[BufferAllocation, BufferAllocation], scale: float) -> None:
        sign = 1 if self._is_inverse else -1
        transform(self._lowering, self._dtype, lines, arrays, sign, scale, _SHARED // self._dtype.bytes)
