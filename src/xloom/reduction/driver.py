"""Halves what is tried until nothing more can go: delta debugging over a table of reductions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from xloom.errors import EvaluationError, XloomError
from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse
from xloom.hlo.verify.module import verify
from xloom.reduction.base import Reduction, Site, UnfitError
from xloom.reduction.cleaning import clean, clean_around, plain_header
from xloom.reduction.kept_state import KeptState
from xloom.reduction.reductions import REDUCTIONS
from xloom.reduction.size import size

Predicate = Callable[[Module], bool]


class NotFailingError(EvaluationError):
    """The module that is to be reduced does not fail. Act: run the test by hand on the whole module."""


@dataclass(frozen=True)
class Progress:
    """How far a reduction has come: what it tries, instructions left of how many, tries so far, seconds."""

    reduction: str
    instructions: int
    of: int
    tries: int
    seconds: float


def reduce(
    module: Module,
    fails: Predicate,
    *,
    jobs: int = 1,
    keep: str | Path | None = None,
    progress: Callable[[Progress], object] | None = None,
    reductions: Sequence[Reduction] = REDUCTIONS,
) -> Module:
    """The smallest valid module that still fails; `module` stays as it is.

    `fails(module)` says of a module whether it does. With more `jobs`, it is asked in as many threads; it runs in this
    process, so what may crash or hang is for `Script` and `Failure`, which start others. `keep` is a folder that has
    the smallest module so far at each time, from which another call goes on. Every module that is asked about, and the
    result, parses and verifies. Raises NotFailingError if `module` does not fail, or what `keep` has.
    """
    kept = KeptState(Path(keep)) if keep is not None else None
    begin = (kept and kept.module()) or module
    with ThreadPoolExecutor(jobs) as pool:
        search = _Search(
            begin, fails, pool if jobs > 1 else None, jobs, kept, progress, sum(map(len, module.computations))
        )
        before = None
        while before != search.size:
            before = search.size
            search.tidy()
            for reduction in reductions:
                search.apply(reduction)
    return search.best


def _nothing(module: Module) -> None:
    pass


_CLEANING: tuple[Callable[[Module], object], ...] = (clean, clean_around, _nothing)
"""What is done after each change: the first of these that leaves a module that fails."""


class _Search:
    """The smallest module that was found, and how the next is looked for."""

    def __init__(
        self,
        module: Module,
        fails: Predicate,
        pool: ThreadPoolExecutor | None,
        jobs: int,
        kept: KeptState | None,
        progress: Callable[[Progress], object] | None,
        instructions: int,
    ):
        self._fails, self._pool, self._jobs, self._kept, self._progress = fails, pool, jobs, kept, progress
        self._begin = time.monotonic()
        self._instructions = instructions
        self._tries = 0
        self._known: set[str] = set()  # texts that do not fail
        self._clean = clean
        self._name = "whole module"
        self.best = _checked(module.clone(""))
        self.size = size(self.best)
        if not self._failing(_text(self.best), self.best):
            raise NotFailingError(
                "the module does not fail, so there is nothing to reduce",
                where=module.name,
                hint="a test says by exit status 0, or True, that a module fails",
            )

    def tidy(self) -> None:
        """Removes what nothing reads, now and after each change, or as much of it as is not why it fails."""
        for self._clean in _CLEANING:
            cleaned = self.best.clone("")
            self._clean(cleaned)
            if size(cleaned) == self.size:
                return
            made = self._candidate(lambda m: None)
            if made is not None and self._failing(*made):
                self._take(made[1])
                return

    def apply(self, reduction: Reduction) -> None:
        """Tries a reduction at all of its places, then at half of them, and so on, as long as less fails."""
        self._name = reduction.name
        sites = reduction.sites(self.best)
        chunk = len(sites) if reduction.together else min(1, len(sites))
        while chunk:
            position = 0
            while position < len(sites):
                for at in self._failing_chunk(reduction, sites, position, chunk):
                    position = at if reduction.together else 0  # these depend on one another
                    sites = reduction.sites(self.best)
                    break
                else:
                    position += chunk * self._jobs
            chunk = min(chunk, len(sites)) // 2

    def _failing_chunk(self, reduction: Reduction, sites: list[Site], position: int, chunk: int) -> Iterator[int]:
        """The first of the next chunks, as many as there are jobs, without which it fails; that is taken."""
        tries: list[tuple[int, Module, Future[bool] | bool]] = []
        for at in range(position, min(position + chunk * self._jobs, len(sites)), chunk):
            made = self._candidate(lambda m, at=at: reduction.apply(m, sites[at : at + chunk]))
            if made is None:
                continue
            text, module = made
            if self._pool is None:
                tries.append((at, module, self._failing(text, module)))
            else:
                tries.append((at, module, self._pool.submit(self._failing, text, module)))
        for at, module, result in tries:
            if result is True or (isinstance(result, Future) and result.result()):
                self._take(module)
                yield at

    def _candidate(self, change: Callable[[Module], object]) -> tuple[str, Module] | None:
        """The text of a smaller module, and the module; None if there is none, or it is known not to fail."""
        module = self.best.clone("")
        try:
            change(module)
            self._clean(module)
            if size(module) >= self.size:
                return None
            text = _text(module)
            if text in self._known:
                return None
            module = _checked(parse(text))
        except (XloomError, UnfitError, KeyError, IndexError, ValueError, AttributeError, TypeError, StopIteration):
            return None  # an operator does not allow it
        return (text, module) if size(module) < self.size else None  # what the header says is known now

    def _failing(self, text: str, module: Module) -> bool:
        self._tries += 1
        failing = bool(self._fails(module))
        if not failing:
            self._known.add(text)
        self._report()
        return failing

    def _take(self, module: Module) -> None:
        self.best, self.size = module, size(module)
        if self._kept is not None:
            self._kept.write(module)
        self._report()

    def _report(self) -> None:
        if self._progress is not None:
            seconds = time.monotonic() - self._begin
            self._progress(Progress(self._name, self.size[0], self._instructions, self._tries, seconds))


def _checked(module: Module) -> Module:
    verify(module)
    plain_header(module)
    return module


def _text(module: Module) -> str:
    return module.to_text(print_large_constants=True)
