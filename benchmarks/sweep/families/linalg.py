"""Factorizations and what is solved by them, of one matrix and of a batch."""

import jax.numpy as jnp
import jax.scipy.linalg
from jax import lax

from benchmarks.sweep.case import Family, positive_definite

LINALG = Family("linalg")

_OF_BATCHES = {
    "cholesky": jnp.linalg.cholesky,
    "qr": jnp.linalg.qr,
    "svd": jnp.linalg.svd,
    "singular-values": lambda a: jnp.linalg.svd(a, compute_uv=False),
    "eigh": jnp.linalg.eigh,
    "eig": jnp.linalg.eig,
    "inv": jnp.linalg.inv,
    "det": jnp.linalg.det,
    "slogdet": jnp.linalg.slogdet,
    "solve": lambda a: jnp.linalg.solve(a, a[..., :4]),
    "lu": jnp.vectorize(jax.scipy.linalg.lu, signature="(n,n)->(n,n),(n,n),(n,n)"),
    "triangular-solve": lambda a: lax.linalg.triangular_solve(a, a, left_side=True, lower=True),
    "pinv": jnp.linalg.pinv,
    "cho-solve": lambda a: jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(a), True), a[..., :3]),
}
_OF_ONE = {
    "expm": lambda a: jax.scipy.linalg.expm(a / 50),
    "lstsq": lambda a: jnp.linalg.lstsq(a, a[:, 0])[0],
    "matrix-power": lambda a: jnp.linalg.matrix_power(a / 50, 5),
    "matrix-rank": jnp.linalg.matrix_rank,
    "schur": lambda a: jax.scipy.linalg.schur(a)[0],
    "hessenberg": jax.scipy.linalg.hessenberg,
}


def _tridiagonal_solve(a):
    return lax.linalg.tridiagonal_solve(a[0], a[0] + 9, a[1], a[:, :3])


def _add(name, function, types) -> None:
    for size in (4, 32, 128):
        LINALG.add(f"{name}-f32-{size}", function, positive_definite(size, size))
    for dtype in types:
        LINALG.add(f"{name}-{dtype}-32", function, positive_definite(32, 32, dtype=dtype))


for name, function in {**_OF_BATCHES, **_OF_ONE}.items():
    _add(name, function, ("f64", "c64"))
_add("tridiagonal-solve", _tridiagonal_solve, ("f64",))

for name, function in _OF_BATCHES.items():
    LINALG.add(f"{name}-f32-200x8", function, positive_definite(200, 8, 8))
for name in ("cholesky", "cho-solve", "det", "inv", "solve", "triangular-solve"):
    LINALG.add(f"{name}-f64-1200", _OF_BATCHES[name], positive_definite(1200, 1200, dtype="f64"))
