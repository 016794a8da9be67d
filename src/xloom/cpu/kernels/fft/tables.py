"""The numbers that transforms read beside their points: roots of unity, chirps, and which passes there are."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from xloom.calls.buffers import ALIGNMENT
from xloom.cpu.kernels.fft import plan
from xloom.hlo.dtype import DType


class Tables:
    """Arrays one after the other in one that a kernel is given, each where `of` has said: bytes from its start."""

    def __init__(self, dtype: DType):
        self._dtype = dtype
        self._places: dict[Hashable, int] = {}
        self._arrays: list[Callable[[], np.ndarray]] = []
        self._nbytes = 0

    def of(self, key: Hashable, nbytes: int, make: Callable[[], np.ndarray]) -> int:
        """Where the array is that `make` gives, of so many bytes; equal keys say that arrays are equal."""
        if key not in self._places:
            self._places[key] = self._nbytes
            self._arrays.append(make)
            self._nbytes += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return self._places[key]

    def roots(self, n: int, sign: int, count: int, step: int = 1) -> int:
        """exp(sign 2 pi i k / n) for `count` numbers k that are `step` apart."""
        return self.complex(
            ("roots", n, sign, count, step), count, lambda: plan.roots(n, sign, np.arange(count) * step)
        )

    def complex(self, key: Hashable, count: int, make: Callable[[], np.ndarray]) -> int:
        """Complex numbers, in the type of the points."""
        return self.of(key, count * self._dtype.bytes, lambda: make().astype(self._dtype.numpy))

    def real(self, key: Hashable, count: int, make: Callable[[], np.ndarray]) -> int:
        """Real numbers, in the type of the points' parts."""
        real = self._dtype.real
        return self.of(key, count * real.bytes, lambda: make().astype(real.numpy))

    def contents(self) -> bytes:
        """All of it."""
        out = bytearray(self._nbytes)
        for place, make in zip(self._places.values(), self._arrays, strict=True):
            data = make().tobytes()
            out[place : place + len(data)] = data
        return bytes(out)
