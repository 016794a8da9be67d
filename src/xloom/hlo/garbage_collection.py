"""Keeps Python's cyclic garbage collector out of the way while a large graph is made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """A block, or a decorated function, during which no cyclic garbage is looked for.

    A module's instructions all live: to look through them, and all else that the process has, again and again makes
    reading one slower than linear, and frees next to nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
