"""Names that are to go: they still work, and say what to use instead."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def warn(name: str, *, instead: str, gone: str, stacklevel: int = 2) -> None:
    """DeprecationWarning at the line that has called whoever calls this: `name` goes with version `gone`."""
    text = f"{name} is deprecated, and goes with xloom {gone}: use {instead}"
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel + 1)


def deprecated(*, instead: str, gone: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorates a function that is to go: each call warns, and its docstring says so."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def warning(*args: P.args, **kwargs: P.kwargs) -> T:
            warn(f"{function.__module__}.{function.__qualname__}", instead=instead, gone=gone)
            return function(*args, **kwargs)

        said = f"Deprecated, and gone with xloom {gone}: use {instead}."
        warning.__doc__ = f"{function.__doc__}\n\n{said}" if function.__doc__ else said
        return warning

    return decorate


def renamed(module: str, names: Mapping[str, str], *, gone: str) -> Callable[[str], object]:
    """The `__getattr__` of a module whose names have become others, old to new; new ones may be of another module.

    It raises AttributeError for names that never were.
    """

    def attribute(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, new = names[name].rpartition(".")
        warn(f"{module}.{name}", instead=f"{home or module}.{new}", gone=gone)
        return getattr(import_module(home or module), new)

    return attribute
