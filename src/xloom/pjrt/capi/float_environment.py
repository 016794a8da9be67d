"""How the processor computes with floats in a thread that others have made."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_libc = ctypes.CDLL(None)
_SIZE = 64
"""Room for C's `fenv_t`: 32 bytes on x86, 8 on Arm."""
_DEFAULT = ctypes.c_void_p(-1)
"""C's FE_DFL_ENV in Linux: rounds to nearest, keeps denormals."""


@contextmanager
def default_floats() -> Iterator[None]:
    """Rounds to nearest and keeps denormals meanwhile, as programs' constants must be read and folded.

    The threads in which jaxlib compiles take denormals for zeros. Other systems than Linux name the default otherwise.
    """
    if sys.platform != "linux":
        yield
        return
    found = ctypes.create_string_buffer(_SIZE)
    _libc.fegetenv(found)
    _libc.fesetenv(_DEFAULT)
    try:
        yield
    finally:
        _libc.fesetenv(found)
