"""Transformations of the modules that clients compile, by platform: the hook for passes of the user's own.

A module has its partitions and counts by then, and nothing else was done to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from xloom.hlo.module import Module

Transformation = Callable[[Module], Module]

_lock = threading.Lock()
_registered: list[tuple[str, Transformation]] = []


def register_transformation(platform: str, transformation: Transformation) -> Callable[[], None]:
    """Has each module that is compiled for `platform` transformed, after those that came earlier; returns what ends it.

    `transformation` is given a module of its own, and gives the one to compile.
    """
    entry = platform, transformation
    with _lock:
        _registered.append(entry)

    def end() -> None:
        with _lock:
            _registered[:] = [each for each in _registered if each is not entry]

    return end


def is_transformed(platform: str) -> bool:
    """True when modules for the platform are transformed."""
    return any(name == platform for name, _ in _registered)


def transformed(platform: str, module: Module) -> Module:
    """What is to be compiled of a module, which stays as it is."""
    with _lock:
        wanted = [transformation for name, transformation in _registered if name == platform]
    for transformation in wanted:
        module = transformation(module.clone(""))
    return module
