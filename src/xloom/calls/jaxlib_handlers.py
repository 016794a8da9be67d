"""The handlers that jaxlib has for LAPACK and sparse matrices, registered when a program asks for one of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any

from xloom.calls.openblas import scipy_linalg
from xloom.calls.pointers import address_of, register_pointer
from xloom.calls.registry import HOST, Registration, add, registered
from xloom.errors import MissingExtraError

_PREFIXES = ("lapack_", "tridiagonal_solve_perturbed", "cpu_csr_sparse_")
_ROUTINES = ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack")


def register_jaxlib_handler(name: str, platform: str) -> None:
    """Registers the handler of that name if jaxlib has one, with its LAPACK loaded."""
    if platform != HOST or not name.startswith(_PREFIXES):
        return
    handler = _handlers().get(name)
    if handler is not None:
        _load_lapack()
        found = register_pointer(name, handler, abi="typed-ffi")
        add(replace(found, answer="", serves_devices=True))  # without asking


def is_of_jaxlib(name: str) -> bool:
    """True for the names of jaxlib's handlers."""
    return name.startswith(_PREFIXES) and name in _handlers()


def is_replaced(name: str) -> bool:
    """True when other code than jaxlib's is registered under the name of one of its handlers."""
    found = next((r for r in registered() if (r.name, r.platform) == (name, HOST)), None)
    return found is not None and not is_lapack(found)


def is_lapack(registration: Registration) -> bool:
    """True for jaxlib's own handler of a routine of LAPACK, which takes arrays wherever they lie."""
    if not registration.name.startswith("lapack_"):
        return False
    handler = _handlers().get(registration.name)
    return handler is not None and registration.address == address_of(handler)


@lru_cache(maxsize=1)
def _handlers() -> dict[str, Any]:
    """Pointers to what jaxlib has, by name; none without jaxlib."""
    try:
        from jaxlib import cpu_sparse, lapack
    except ImportError:
        return {}
    return {name: pointer for module in (lapack, cpu_sparse) for name, pointer, _ in module.registrations()["cpu"]}


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
    folder = scipy_linalg()
    alone: list[str] = []
    if folder is not None and "scipy.linalg" not in sys.modules:
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
