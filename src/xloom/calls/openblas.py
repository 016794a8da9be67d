"""The number of threads that each call of OpenBLAS is computed by, of the library that SciPy brings."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

_FORMS = ("scipy_openblas_{}_num_threads", "openblas_{}_num_threads", "scipy_openblas_{}_num_threads64_")
"""What the functions are called, as SciPy's wheels have them and others."""


class ThreadFunctions(NamedTuple):
    """Addresses of `int get()` and `void set(int)`."""

    get: int
    set: int


def scipy_linalg() -> str | None:
    """The folder of `scipy.linalg`, which it takes long to import; None without SciPy."""
    package = find_spec("scipy")
    return None if package is None else str(Path((package.submodule_search_locations or [""])[0]) / "linalg")


@lru_cache(maxsize=1)
def thread_functions() -> ThreadFunctions | None:
    """Those of the OpenBLAS whose LAPACK SciPy's modules, and so jaxlib's handlers, call; None if it is another."""
    folder = scipy_linalg()
    spec = PathFinder.find_spec("cython_lapack", [folder]) if folder is not None else None
    if spec is None or spec.origin is None:
        return None
    library = ctypes.CDLL(spec.origin)  # names are looked up in what it is linked with, too
    for form in _FORMS:
        if hasattr(library, form.format("get")):
            found = (getattr(library, form.format(verb)) for verb in ("get", "set"))
            return ThreadFunctions(*(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in found))
    return None
