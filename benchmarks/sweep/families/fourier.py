"""Fourier transforms of powers of two, smooth numbers and primes."""

import jax.numpy as jnp

from benchmarks.sweep.case import Family, array, size_name

FOURIER = Family("fourier")

_SHAPES = ((64, 256), (16, 1000), (4, 4096), (256, 30), (3, 1009), (100_000,))
_REAL = {"c64": "f32", "c128": "f64"}

for name in ("fft", "ifft", "rfft", "irfft", "hfft", "fft2", "rfft2", "fftn"):
    for shape in _SHAPES:
        if len(shape) == 1 and name.endswith(("2", "n")):
            continue
        for dtype in ("c64", "c128"):
            given = _REAL[dtype] if name.startswith("r") else dtype
            FOURIER.add(f"{name}-{given}-{size_name(shape)}", getattr(jnp.fft, name), array(*shape, dtype=given))
