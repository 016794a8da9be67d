"""What JAX's benchmarks use of the Python package google_benchmark, timed here: each runs for a while, once."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

Function = Callable[["State"], Any]


class Skipped(Exception):
    """A benchmark that does not apply: why not."""


class Counter(float):
    """A number that a benchmark reports beside its time."""

    kIsRate = 1

    def __new__(cls, value: float, *flags: int) -> Counter:
        """`flags` say how it is to be shown."""
        return super().__new__(cls, value)


@dataclass
class State:
    """A run of a benchmark, which goes on while this is true."""

    arguments: Sequence[int]
    seconds: float
    """How long it goes on."""
    iterations: int = 0
    counters: dict[str, Any] = field(default_factory=dict)
    _spent: float = 0.0
    _since: float | None = None

    def range(self, number: int = 0) -> int:
        """An argument."""
        return self.arguments[number]

    def __bool__(self) -> bool:
        self.pause_timing()
        going_on = self._since is None or self._spent < self.seconds
        self.iterations += self._since is not None
        self.resume_timing()
        return going_on

    def __iter__(self) -> Iterator[None]:
        while self:
            yield

    def pause_timing(self) -> None:
        """Leaves out what follows."""
        if self._since is not None:
            self._spent += time.perf_counter() - self._since

    def resume_timing(self) -> None:
        """Counts what follows."""
        self._since = time.perf_counter()

    def skip_with_error(self, message: str) -> None:
        """Ends the run: Skipped."""
        raise Skipped(message)

    @property
    def each(self) -> float:
        """Seconds an iteration."""
        return self._spent / self.iterations


def module(registered: dict[str, tuple[Function, list[Sequence[int]]]]) -> ModuleType:
    """The package, which puts what is registered into a table: by name the functions, and the arguments of each run."""
    rows: dict[Function, list[Sequence[int]]] = {}

    def register(function: Function | None = None, *, name: str = "") -> Any:
        def add(function: Function) -> Function:
            registered[name or function.__name__] = function, rows.get(function) or [()]
            return function

        return add if function is None else add(function)

    def with_rows(*found: Sequence[int]) -> Callable[[Function], Function]:
        def add(function: Function) -> Function:
            rows[function] = [*found, *rows.get(function, [])]  # decorators apply from the last one on
            return function

        return add

    options = ModuleType("option")
    options.__dict__.update(
        arg=lambda value: with_rows([value]),
        args=lambda values: with_rows(values),
        args_product=lambda values: with_rows(*itertools.product(*values)),
        dense_range=lambda first, last, step=1: with_rows(*([n] for n in range(first, last + 1, step))),
        arg_names=lambda names: with_rows(),
        unit=lambda unit: with_rows(),
        measure_process_cpu_time=lambda: with_rows(),
    )
    package = ModuleType("google_benchmark")
    package.__dict__.update(
        register=register,
        option=options,
        Counter=Counter,
        State=State,
        kMicrosecond="us",
        kMillisecond="ms",
        initialize=lambda arguments: arguments,
        main=lambda: None,
        run_benchmarks=lambda: None,
    )
    return package
