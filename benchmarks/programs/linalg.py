"""Fourier transforms and factorisations."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import export, lax

from benchmarks.programs.arguments import lower_triangular, normal, positive_definite
from benchmarks.programs.registry import program


def _as_operations(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function in StableHLO's own operations, where JAX would call LAPACK on a CPU."""
    exported = export.export(
        jax.jit(function), platforms=["tpu"], disabled_checks=[export.DisabledSafetyCheck.platform()]
    )(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arguments))
    return exported.call(*arguments)


@program("fft", normal(256, 1024), normal(256, 1024))
def fft(real, imaginary):
    """Complex, of a power of two, along rows."""
    y = jnp.fft.fft(lax.complex(real, imaginary))
    return y.real, y.imag


@program("fft-long", normal(1 << 18), normal(1 << 18))
def fft_long(real, imaginary):
    """One long signal."""
    y = jnp.fft.fft(lax.complex(real, imaginary))
    return y.real, y.imag


@program("fft-1000", normal(256, 1000), normal(256, 1000))
def fft_composite(real, imaginary):
    """Of a length with factors two and five."""
    y = jnp.fft.ifft(lax.complex(real, imaginary))
    return y.real, y.imag


@program("fft-prime", normal(256, 1009), normal(256, 1009))
def fft_prime(real, imaginary):
    """Of a prime length."""
    y = jnp.fft.fft(lax.complex(real, imaginary))
    return y.real, y.imag


@program("rfft", normal(256, 4096))
def rfft(x):
    """Real to complex."""
    return jnp.abs(jnp.fft.rfft(x))


@program("convolve-fft", normal(512, 512), normal(512, 512))
def convolve_fft(x, w):
    """There and back in two dimensions, with a product between."""
    return jnp.fft.irfft2(jnp.fft.rfft2(x) * jnp.fft.rfft2(w))


@program("cholesky", positive_definite(256), flops=256**3 // 3)
def cholesky(a):
    """As an operation."""
    return _as_operations(lambda a: lax.linalg.cholesky(a, symmetrize_input=False), a)


@program("cholesky-lapack", positive_definite(256), flops=256**3 // 3)
def cholesky_lapack(a):
    """As the custom call that JAX makes on a CPU."""
    return lax.linalg.cholesky(a, symmetrize_input=False)


@program("triangular-solve", lower_triangular(256), normal(256, 256), flops=256**3)
def triangular_solve(a, b):
    """As an operation."""
    return _as_operations(lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), a, b)


@program("solve-lapack", positive_definite(256), normal(256), flops=256**3 * 2 // 3)
def solve_lapack(a, b):
    """A system of equations, by LAPACK's LU factors."""
    return jnp.linalg.solve(a, b)
