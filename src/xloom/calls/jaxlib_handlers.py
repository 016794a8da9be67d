"""The handlers that jaxlib has for LAPACK and sparse matrices, registered when a program asks for one of them."""

from __future__ import annotations

from xloom.calls.pointers import register_pointer
from xloom.errors import MissingExtraError

_PREFIXES = ("lapack_", "tridiagonal_solve_perturbed", "cpu_csr_sparse_")


def register_jaxlib_handler(name: str, platform: str) -> None:
    """Registers the handler of that name if jaxlib has one, with its LAPACK loaded."""
    if platform != "Host" or not name.startswith(_PREFIXES):
        return
    try:
        from jaxlib import cpu_sparse, lapack
    except ImportError:
        return
    for target, capsule, _ in (*lapack.registrations()["cpu"], *cpu_sparse.registrations()["cpu"]):
        if target == name:
            _load_lapack()
            register_pointer(name, capsule, abi="typed-ffi")


def _load_lapack() -> None:
    from jaxlib.cpu import _lapack

    try:
        _lapack.initialize()  # takes the routines out of SciPy
    except ImportError as error:
        raise MissingExtraError(f"jaxlib's LAPACK handlers need SciPy: {error}", hint="pip install scipy") from error
