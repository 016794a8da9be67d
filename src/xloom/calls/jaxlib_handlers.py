"""The handlers that jaxlib has for LAPACK and sparse matrices, registered when a program asks for one of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path

from xloom.calls.pointers import register_pointer
from xloom.errors import MissingExtraError

_PREFIXES = ("lapack_", "tridiagonal_solve_perturbed", "cpu_csr_sparse_")
_ROUTINES = ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack")


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
        with _routines_of_scipy():
            _lapack.initialize()  # takes the routines out of SciPy
    except ImportError as error:
        raise MissingExtraError(f"jaxlib's LAPACK handlers need SciPy: {error}", hint="pip install scipy") from error


@contextmanager
def _routines_of_scipy() -> Iterator[None]:
    """SciPy's tables of routines are there to be imported, without all of `scipy.linalg`, which takes much longer."""
    package = find_spec("scipy")
    alone: list[str] = []
    if package is not None and "scipy.linalg" not in sys.modules:
        folder = str(Path((package.submodule_search_locations or [""])[0]) / "linalg")
        for name in _ROUTINES:
            spec = PathFinder.find_spec(name, [folder])
            if spec is not None and spec.loader is not None and name not in sys.modules:
                module = sys.modules[name] = module_from_spec(spec)
                alone.append(name)
                spec.loader.exec_module(module)
    try:
        yield
    finally:
        for name in alone:  # who imports them later finds them in their package
            del sys.modules[name]
