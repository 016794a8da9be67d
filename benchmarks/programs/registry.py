"""The decorator that makes a JAX function a program to measure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from benchmarks.programs.arguments import Argument

PROGRAMS: dict[str, Program] = {}


@dataclass(frozen=True)
class Program:
    """A function, its arguments, and the least work that a machine has to do for it."""

    name: str  # family/name
    function: Callable[..., Any]
    arguments: tuple[Any, ...]  # pytrees of Argument, one a parameter
    flops: int = 0  # 0: arithmetic is not what bounds it
    streams: bool = False  # bounded by reading its arguments and writing its results once
    tolerance: float | None = None  # relative; by dtype unless told
    outliers: float = 0.0  # share of the elements that may differ by more

    @property
    def family(self) -> str:
        """What kind of program it is: the name of its file."""
        return self.name.split("/")[0]

    @property
    def leaves(self) -> list[Argument]:
        """The arguments, flat."""
        return jax.tree.leaves(self.arguments)

    def flat(self, *leaves: Any) -> list[Any]:
        """The function on flat arguments, with flat results, so that neither side pays for Python's containers."""
        structure = jax.tree.structure(self.arguments)
        return jax.tree.leaves(self.function(*jax.tree.unflatten(structure, leaves)))

    def lower(self) -> jax.stages.Lowered:
        """The program as StableHLO."""

        # a function of its own a call: what JAX remembers of an earlier one is not found
        def main(*leaves: Any) -> list[Any]:
            return self.flat(*leaves)

        return jax.jit(main, keep_unused=True).lower(*(leaf.spec for leaf in self.leaves))

    def make_arguments(self) -> list[np.ndarray]:
        """The arguments with their contents."""
        generator = np.random.default_rng(0)
        return [leaf.make(generator) for leaf in self.leaves]

    @property
    def bytes_moved(self) -> int:
        """How many bytes a perfect program would read and write; 0 when memory is not what bounds this one."""
        if not self.streams:
            return 0
        results = jax.eval_shape(self.flat, *(leaf.spec for leaf in self.leaves))
        return sum(math.prod(a.shape) * a.dtype.itemsize for a in [*self.leaves, *results])


def program(
    name: str,
    *arguments: Any,
    flops: int = 0,
    streams: bool = False,
    tolerance: float | None = None,
    outliers: float = 0.0,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the function it decorates; the family is the name of the function's file."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        full = f"{function.__module__.rsplit('.', 1)[-1]}/{name}"
        if full in PROGRAMS:
            raise ValueError(f"there are two programs named {full}")
        PROGRAMS[full] = Program(full, function, arguments, flops, streams, tolerance, outliers)
        return function

    return register
