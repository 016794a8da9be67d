"""One program after another on every side, and what there is to say about each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

from tests.judges.mismatch import cause_of, listing, mismatch
from tests.judges.reducer import DISAGREES, reduced
from tests.judges.side import Outcome, Side
from tests.judges.sides import Source
from tests.judges.stateful.on_cpu import Differs
from tests.judges.stateful.shrink import shrunk
from xloom.errors import XloomError
from xloom.hlo.module import Module
from xloom.interpreter.bounds import Bounds
from xloom.interpreter.perturbed import is_float

GENERATOR = "tests.judges.stateful.generator"
AGREES = "agrees"
VALUES, JAXLIB, CPU, ONE_THREAD = "values", "jaxlib, no header", "cpu, twice", "cpu, one thread"
_CLOSE = 16
"""Units in the last place, within which nobody needs to know how far rounding can move a value."""
_WIDE = 10_000
_EVERY = 4
"""Of so many programs, one goes to XLA:CPU too, which says whether the interpreter is right."""
_SECONDS = 60  # to cut a program down


@dataclass
class Found:
    """What a program shows: that all agree, or who does not and how."""

    kind: str = AGREES
    message: str = ""
    program: str = ""

    def as_line(self) -> dict[str, str]:
        """What a file says of it."""
        return {k: v for k, v in vars(self).items() if v}


class Judge:
    """Runs programs on the sides. Of each kind of finding the first `show` are cut down."""

    def __init__(self, seed: int, timeout: float, folder: Path, show: int):
        self.seed, self.show = seed, show
        self._sides = {name: Side(name, folder, timeout) for name in (VALUES, JAXLIB, CPU, ONE_THREAD, "interpreter")}
        self._threads = ThreadPoolExecutor(len(self._sides))
        self._seen: Counter[str] = Counter()

    def judge(self, number: int) -> Found:
        """The finding of one program."""
        source = Source(self.seed, number, generator=GENERATOR)
        module, arguments = source.load()
        found = self._found(source, module, arguments)
        self._seen[found.kind] += 1
        if found.kind == AGREES or found.kind.startswith("refused") or self._seen[found.kind] > self.show:
            return found
        if found.kind.startswith("jaxlib"):
            return self._explained(found, module, arguments)
        kind = found.kind.partition(":")[0]

        def same(smaller: Module, given: list[np.ndarray]) -> bool:
            again = self._found(_source(smaller, given), smaller, given)
            return again.kind.startswith(kind) and (kind != "error" or again.message == found.message)

        small = shrunk(module, list(arguments), same, _SECONDS)
        last = self._found(_source(*small), *small)
        return Found(found.kind, last.message or found.message, listing(*small))

    def _found(self, source: Source, module: Module, arguments: Sequence[np.ndarray]) -> Found:
        names = [VALUES, CPU]
        if source.number % _EVERY == 0 and _is_for_jaxlib(module):
            names.append(JAXLIB)
        if source.number % 16 == 0 or any(i.shape.is_array and i.shape.size > _WIDE for i in module.instructions):
            names.append(ONE_THREAD)
        results = self._threads.map(lambda name: self._sides[name].run(source), names)
        outcomes = dict(zip(names, results, strict=True))
        mine, cpu = outcomes[VALUES], outcomes[CPU]
        if cpu.status == "hung":  # or was it the machine?
            cpu = outcomes[CPU] = self._sides[CPU].run(source)
        if cpu.status in ("crashed", "hung"):
            return Found(f"dead: {cpu.status}", cpu.message)
        if cpu.status != "ran":
            return _without_results(cpu.message)
        if ONE_THREAD in outcomes:
            one = outcomes[ONE_THREAD]
            if one.status != "ran" or [a.tobytes() for a in one.results] != [a.tobytes() for a in cpu.results]:
                return Found("wrong: threads", one.message or "results depend on the number of threads")
        if mine.status != "ran":
            return Found(f"refused by the interpreter: {mine.status}", mine.message)
        measure = _Measure(mine.results, source, self._sides["interpreter"])
        message = measure.wrong(cpu.results)
        if message:
            return Found("wrong: values", message)
        return self._against_jaxlib(measure, outcomes.get(JAXLIB))

    def _against_jaxlib(self, measure: _Measure, theirs: Outcome | None) -> Found:
        """XLA:CPU against the interpreter, which the CPU compiler agrees with."""
        if theirs is None or theirs.status != "ran":
            return Found()
        message = measure.wrong(theirs.results)
        return Found("jaxlib disagrees", message) if message else Found()

    def _explained(self, found: Found, module: Module, arguments: Sequence[np.ndarray]) -> Found:
        """What is known of XLA:CPU, or the part that it does otherwise."""
        pair = ("jaxlib", "interpreter")

        def verdict(part: Module, given: Sequence[np.ndarray]) -> str:
            source = _source(part, list(given))
            theirs, bounds = self._sides[JAXLIB].run(source), self._sides["interpreter"].run(source)
            if theirs.status != "ran" or bounds.status != "ran":
                return ""
            wrong = mismatch(bounds.results, theirs.results, None)
            return cause_of(pair, part, given, wrong) or DISAGREES if wrong else ""

        try:
            small = reduced(module, arguments, verdict)
        except XloomError:
            return found
        cause = verdict(*small)
        if cause and cause != DISAGREES:
            return Found(f"jaxlib explained: {cause}", found.message)
        return Found(found.kind, found.message, listing(*small))

    def stop(self) -> None:
        """Ends the children."""
        for side in self._sides.values():
            side.stop()


class _Measure:
    """The interpreter's values, and how far rounding may move them once somebody needs to know."""

    def __init__(self, values: list[np.ndarray], source: Source, interpreter: Side):
        self._values, self._source, self._interpreter = values, source, interpreter
        self._bounds: list[Bounds] | None = None

    def wrong(self, got: list[np.ndarray]) -> str:
        """What is wrong with these results, if anything is."""
        same = len(got) == len(self._values)
        if same and all(is_close(a, b) for a, b in zip(got, self._values, strict=True)):
            return ""
        bounds = self._bounds
        if bounds is None:
            run = self._interpreter.run(self._source)
            bounds = self._bounds = run.results if run.status == "ran" else [Bounds([v]) for v in self._values]
        found = mismatch(bounds, got, None)
        return found.message if found else ""


def _without_results(message: str) -> Found:
    """A program that the CPU compiler does not run, or whose runs are not as they should be."""
    name, _, what = message.partition(": ")
    if name == Differs.__name__:
        words = what.partition(":")[0].split()
        return Found("wrong: " + " ".join(w for w in words if not w.isdigit()), message)
    return Found("refused" if name in ("UnsupportedError", "LoweringError") else f"error: {name}", message)


def is_close(got: np.ndarray, want: np.ndarray) -> bool:
    """True within a few units in the last place, integers being equal."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if got.dtype.kind == "c":
        return is_close(np.real(got), np.real(want)) and is_close(np.imag(got), np.imag(want))
    if not is_float(got):
        return bool(np.array_equal(got, want))
    x, y = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(x - y) <= _CLOSE * float(ml_dtypes.finfo(got.dtype).eps) * np.abs(y)
    return bool(np.all((near | (x == y) & (np.signbit(x) == np.signbit(y))) | np.isnan(x) & np.isnan(y)))


def _is_for_jaxlib(module: Module) -> bool:
    """False for calls of our kernels, and where XLA would divide constants by zero, of which it dies."""
    for i in module.instructions:
        if i.opcode == "custom-call" and not i["custom_call_target"].startswith("lapack_"):
            return False
        if i.opcode in ("divide", "remainder") and i.shape.dtype.is_integer:
            return False
    return True


def _source(module: Module, arguments: list[np.ndarray]) -> Source:
    return Source(proto=module.to_proto(), arguments=tuple(arguments), generator=GENERATOR)
