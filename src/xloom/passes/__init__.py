"""Rewrites of modules, one pass per file: who asks this package loads them all, and who asks a file what that needs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xloom.passes.every_pass import *  # noqa: F403


def __getattr__(name: str) -> Any:
    every = import_module("xloom.passes.every_pass")
    if name not in every.__all__:
        raise AttributeError(f"module 'xloom.passes' has no attribute {name!r}")
    return getattr(every, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module("xloom.passes.every_pass").__all__})
