"""A program of JAX as data: it can be printed as Python, run, and cut down."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

_HOLE = re.compile(r"\{(b?\d+)\}")


@dataclass(frozen=True)
class Step:
    """An expression over earlier values: `{0}` is its first operand, `{b0}` the first function that it is given."""

    template: str
    operands: tuple[int, ...]
    results: int | None = None  # how many, of a step that returns a tuple
    bodies: tuple[Program, ...] = ()

    @property
    def count(self) -> int:
        """How many values it adds."""
        return 1 if self.results is None else self.results


@dataclass(frozen=True)
class Program:
    """Values are numbered: first the parameters, then what the steps return."""

    parameters: int
    steps: tuple[Step, ...]
    results: tuple[int, ...]

    def numbers(self) -> list[range]:
        """Of each step, the numbers of its values."""
        found, start = [], self.parameters
        for step in self.steps:
            found.append(range(start, start + step.count))
            start += step.count
        return found

    def without_dead_steps(self) -> Program:
        """Without steps that no result needs."""
        needed = set(self.results)
        kept = []
        for step, numbers in zip(reversed(self.steps), reversed(self.numbers()), strict=True):
            if not needed.isdisjoint(numbers):
                needed.update(step.operands)
                kept.append((step, numbers))
        kept.reverse()
        new = {k: k for k in range(self.parameters)}
        steps = []
        for step, numbers in kept:
            operands = tuple(new[o] for o in step.operands)
            steps.append(
                Step(step.template, operands, step.results, tuple(b.without_dead_steps() for b in step.bodies))
            )
            for number in numbers:
                new[number] = len(new)
        return Program(self.parameters, tuple(steps), tuple(new[r] for r in self.results))

    def operators(self) -> int:
        """How many steps, those of functions that are passed included."""
        return sum(1 + sum(body.operators() for body in step.bodies) for step in self.steps)

    def source(self, name: str = "program") -> str:
        """The program as a function in Python."""
        return "\n".join(self._lines(name))

    def _lines(self, name: str) -> list[str]:
        lines = [f"def {name}({', '.join(f'v{k}' for k in range(self.parameters))}):"]
        for step, numbers in zip(self.steps, self.numbers(), strict=True):
            holes = {str(k): f"v{operand}" for k, operand in enumerate(step.operands)}
            for k, body in enumerate(step.bodies):
                holes[f"b{k}"] = f"{name}_{numbers.start}_{k}"
                lines += [f"    {line}" for line in body._lines(holes[f"b{k}"])]
            expression = _HOLE.sub(lambda hole, holes=holes: holes[hole[1]], step.template)
            targets = "".join(f"v{n}, " for n in numbers).rstrip() if step.results is not None else f"v{numbers.start}"
            lines.append(f"    {targets} = {expression}")
        return [*lines, f"    return ({''.join(f'v{r}, ' for r in self.results)})"]

    def function(self) -> Callable[..., tuple[Any, ...]]:
        """What the source says."""
        source = self.source()
        scope = dict(_scope())
        if "sweep[" in source:
            scope["sweep"] = import_module("tests.judges.composed.embedded").functions()
        exec(compile(source, "<composed>", "exec"), scope)
        return scope["program"]


@cache
def _scope() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    import jax.scipy as jsp
    from jax import lax

    return {"jax": jax, "jnp": jnp, "jsp": jsp, "lax": lax, "np": np}


@dataclass(frozen=True)
class Case:
    """A program, its arguments, and which of them are donated."""

    program: Program
    arguments: tuple[np.ndarray, ...]
    donated: tuple[int, ...] = ()

    def source(self) -> str:
        """A script that runs it."""
        with np.printoptions(threshold=200, precision=17):
            arguments = [f"v{k} = {_literal(a)}" for k, a in enumerate(self.arguments)]
        donated = f", donate_argnums={self.donated}" if self.donated else ""
        call = f"jax.jit(program{donated})({', '.join(f'v{k}' for k in range(len(self.arguments)))})"
        return "\n".join([self.program.source(), *arguments, f"print({call})"])


def _literal(array: np.ndarray) -> str:
    kind = array.dtype.name if array.dtype.name != "bool" else "bool_"
    if array.size > 200:
        summary = f"from {array.min()} to {array.max()}" if array.dtype.kind in "iuf" else ""
        return f"...  # {kind}{list(array.shape)} {summary}"
    body = "" if array.ndim == 1 else f".reshape({array.shape})"
    values = ", ".join(_number(x) for x in array.ravel().tolist())
    return f"jnp.array([{values}], jnp.{kind}){body}"


def _number(x: Any) -> str:
    text = repr(x)
    return re.sub(r"\b(inf|nan)\b", r"jnp.\1", text)


def substituted(program: Program, old: int, new: int) -> Program:
    """The program with reads of one value replaced by reads of another."""

    def swap(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(new if n == old else n for n in numbers)

    steps = tuple(Step(s.template, swap(s.operands), s.results, s.bodies) for s in program.steps)
    return Program(program.parameters, steps, swap(program.results))
