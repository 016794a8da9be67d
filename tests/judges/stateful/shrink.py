"""Makes a program on which something is wrong smaller, loops and branches included, while it is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import numpy as np

from tests.judges.limited import Limited
from xloom.errors import XloomError
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.interpreter.values import random_argument
from xloom.reduction import NotFailingError, reduce

Program = tuple[Module, list[np.ndarray]]


class _LateError(Exception):
    """The time is over."""


def shrunk(
    module: Module, arguments: list[np.ndarray], wrong: Callable[[Module, list[np.ndarray]], bool], seconds: float
) -> Program:
    """The smallest such program that is found in that time. Its parameters have the values that they had."""
    until = time.monotonic() + seconds
    by_name = {p.name: a for p, a in zip(module.entry.parameters, arguments, strict=True)}
    best = module, arguments

    def fails(smaller: Module) -> bool:
        nonlocal best
        if time.monotonic() > until:
            raise _LateError
        if not all(p.shape.is_array for p in smaller.entry.parameters):
            return False  # who runs it hands arrays over
        given = _arguments(smaller, by_name)
        try:
            Limited(smaller).call(smaller.entry, given)
        except XloomError:
            return False
        if not wrong(smaller, given):
            return False
        best = smaller, given
        return True

    with suppress(_LateError, NotFailingError):
        reduce(module, fails)
    return best


def _arguments(module: Module, known: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Of parameters that were there what they were, cut and converted to what they are now; of others random ones."""
    generator = np.random.default_rng(0)
    return [_argument(p.shape, known.get(p.name), generator) for p in module.entry.parameters]


def _argument(shape: Shape, was: np.ndarray | None, generator: np.random.Generator) -> np.ndarray:
    if was is None or not shape.is_array or was.ndim != shape.rank or any(map(int.__lt__, was.shape, shape.dims)):
        return random_argument(shape, generator)
    return was[tuple(slice(n) for n in shape.dims)].astype(shape.dtype.numpy)
