"""One program on both platforms in this process, and what there is to say about its values."""

from __future__ import annotations

import json
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import numpy as np

import xloom as xl
from tests.judges.child import Case as Run
from tests.judges.composed.generator import generate
from tests.judges.composed.program import Case
from tests.judges.composed.rounding import PERIOD, moved
from tests.judges.composed.task import Task
from xloom.errors import XloomError
from xloom.interpreter.bounds import Bounds
from xloom.interpreter.perturbed import is_float

_NEAR = 32  # units in the last place that no question is asked about
_RUNS, _MORE_RUNS = 8, 40


@dataclass
class Record:
    """What became of one program."""

    number: int
    status: str = "agrees"  # wrong, XLA alone, refused, died, hung, no reference
    message: str = ""
    operators: int = 0
    elements: int = 0
    compared: int = 0  # elements that had to be right within a hundredth, most of them within a few units
    seconds: dict[str, float] = field(default_factory=dict)
    phase: Path | None = None


def cases(task: Task) -> Iterator[Run]:
    """What run_cases asks for."""
    jax.config.update("jax_enable_x64", True)
    warnings.filterwarnings("ignore", "Some donated buffers were not usable")
    for number in task.numbers:
        yield str(number), lambda number=number: _recorded(task, number)


def made(seed: int, types: str, number: int) -> Case | None:
    """The program of that number; nothing, if the sweep has none there."""
    if types == "embedded":
        return import_module("tests.judges.composed.embedded").embedded(number)
    return generate(seed, number, types)


def _recorded(task: Task, number: int) -> str:
    Path(task.phase).write_text("generating")
    start = time.process_time()
    case = made(task.seed, task.types, number)
    seconds = time.process_time() - start
    record = Record(-1, "none") if case is None else judged(case, Path(task.phase))
    record.number = number
    record.seconds["generated"] = seconds
    with Path(task.file).open("a") as file:
        file.write(json.dumps({k: v for k, v in asdict(record).items() if k != "phase"}) + "\n")
    return ""


@dataclass(frozen=True)
class Attempt:
    """A program to judge, the file for its record, and the one that says who is at work."""

    case: Case
    file: str
    phase: str


def attempts(attempt: Attempt) -> Iterator[Run]:
    """The one case of an attempt."""
    jax.config.update("jax_enable_x64", True)
    warnings.filterwarnings("ignore", "Some donated buffers were not usable")

    def run() -> str:
        Path(attempt.phase).write_text("tracing")
        record = judged(attempt.case, Path(attempt.phase))
        Path(attempt.file).write_text(json.dumps({"status": record.status, "message": record.message}))
        return ""

    yield "attempt", run


def judged(case: Case, phase: Path | None = None) -> Record:
    """The record of a program; a file says meanwhile who is at work, should the process die."""
    record = Record(-1, phase=phase, operators=case.program.operators())
    function = case.program.function()
    compiled = jax.jit(function, donate_argnums=case.donated)
    try:
        want = _timed(record, "reference", lambda: _reference(compiled, function, case))
    except Exception as error:
        record.status, record.message = "no reference", _one_line(error)
        return record
    try:
        got = _timed(record, "ours", lambda: _on("xloom", compiled, case, twice=True))
    except ChangedError as error:
        record.status, record.message = "wrong", str(error)
        return record
    except Exception as error:
        record.status, record.message = "refused", _one_line(error)
        return record
    record.elements = sum(w.size for w in want)
    differ = [~near(w, g) for w, g in zip(want, got, strict=True)]
    record.compared = record.elements - sum(int(d.sum()) for d in differ)
    if record.compared < record.elements:
        try:
            _timed(record, "rounding", lambda: _by_rounding(record, case, function, want, got, differ))
        except Exception as error:
            record.status, record.message = "no reference", f"rounding: {_one_line(error)}"
    return record


class ChangedError(Exception):
    """A run changed what it must not."""


def _timed(record: Record, name: str, run: Any) -> Any:
    if record.phase is not None:
        record.phase.write_text(name)
    start = time.process_time()
    try:
        return run()
    finally:
        record.seconds[name] = time.process_time() - start


def _one_line(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f" ({Path(last.filename).name}:{last.lineno})"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}{where}"


def _reference(compiled: Any, function: Any, case: Case) -> list[np.ndarray]:
    try:
        return _on("cpu", compiled, case)
    except jax.errors.JaxRuntimeError:
        # XLA:CPU has no FFT of operands in some layouts: step by step there are none
        return _on("cpu", function, case)


def _on(platform: str, compiled: Any, case: Case, twice: bool = False) -> list[np.ndarray]:
    device = jax.devices(platform)[0]

    def run() -> list[np.ndarray]:
        # where they lie says where it runs; a default device would be part of what is traced
        arguments = [jax.device_put(np.array(a), device) for a in case.arguments]
        results = [np.asarray(r) for r in compiled(*arguments)]
        for k, (before, after) in enumerate(zip(case.arguments, arguments, strict=True)):
            if k not in case.donated and np.asarray(after).tobytes() != before.tobytes():
                raise ChangedError(f"argument {k} has changed")
        return results

    first = run()
    if twice:
        for k, (one, other) in enumerate(zip(first, run(), strict=True)):
            if one.tobytes() != other.tobytes():
                raise ChangedError(f"result {k} is another one in the second run")
    return first


def near(want: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Where two results are the same, but for a few units in the last place."""
    if want.dtype != got.dtype or want.shape != got.shape:
        return np.zeros(want.shape, bool)
    with np.errstate(all="ignore"):
        if want.dtype.kind == "c":
            both_nan = np.isnan(want) & np.isnan(got)
            unit = _NEAR * np.finfo(want.dtype).eps
            return (want == got) | both_nan | (np.abs(want - got) <= unit * np.abs(want))
        if not is_float(want):
            return want == got
        info = jax.numpy.finfo(want.dtype)
        a, b = want.astype(np.float64), got.astype(np.float64)
        room = (_NEAR if want.itemsize > 2 else 2) * float(info.eps) * np.abs(a) + float(info.tiny)
        return (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= room)


def _by_rounding(
    record: Record, case: Case, function: Any, want: list[np.ndarray], got: list[np.ndarray], differ: list[np.ndarray]
) -> None:
    """Counts what rounding explains, and says what it does not."""
    for k, (w, g) in enumerate(zip(want, got, strict=True)):
        if w.dtype != g.dtype or w.shape != g.shape:
            record.status, record.message = "wrong", f"result {k}: {g.dtype}{g.shape} for {w.dtype}{w.shape}"
            return
    device = jax.devices("cpu")[0]
    function = moved(function, case.arguments)
    compiled = jax.jit(function)
    numbers = np.random.default_rng(0)
    runs = [[w] for w in want]

    def run(count: int) -> None:
        for n in range(count):
            signs = numbers.choice((-1, 1), PERIOD).astype(np.int8)
            zero = np.float64(-0.0 if n % 2 else 0.0)
            arguments = [jax.device_put(np.array(a), device) for a in (signs, zero, *case.arguments)]
            try:
                results = jax.block_until_ready(compiled(*arguments))
            except jax.errors.JaxRuntimeError:  # see _reference
                results = function(*arguments)
            for found, result in zip(runs, results, strict=True):
                found.append(np.asarray(result))

    run(_RUNS)
    if any(_wrong(r, g, d).any() for r, g, d in zip(runs, got, differ, strict=True)):
        run(_MORE_RUNS)
    thirds: list[np.ndarray | None] = []
    for k, (found, value, where) in enumerate(zip(runs, got, differ, strict=True)):
        wrong = _wrong(found, value, where)
        if wrong.any() and record.status != "wrong":
            thirds = thirds or _by_interpreter(case)
            third = thirds[k]
            alone = third is not None and not (wrong & ~_nearer(value, third, found[0])).any()
            at = tuple(int(n) for n in np.argwhere(wrong)[0])
            others = ", ".join(str(f[at]) for f in found[1:6])
            record.status = "XLA alone" if alone else "wrong"
            ours = f"{value[at]}, as the interpreter," if alone else value[at]
            record.message = (
                f"result {k} {value.dtype}{list(value.shape)}: {wrong.sum()} of {wrong.size} elements, "
                f"at {list(at)} {ours} for {found[0][at]} (other runs: {others})"
            )
        record.compared += int((where & ~_loose(found)).sum())


def _by_interpreter(case: Case) -> list[np.ndarray | None]:
    """What the interpreter makes of the program as it is lowered for the platform; nothing where it cannot."""
    traced = jax.jit(case.program.function(), keep_unused=True).trace(*case.arguments)
    module = xl.from_stablehlo(traced.lower(lowering_platforms=("xloom",)).as_text())
    try:
        results = xl.evaluate(module, *(np.asarray(a) for a in case.arguments))
    except XloomError:
        return [None] * len(module.result_shape.elements or [0])
    return list(results) if isinstance(results, tuple) else [results]


def _nearer(got: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Where a value is the one, or a thousand times as near to it as the other is."""
    with np.errstate(all="ignore"):
        one, got, other = (x.astype(np.complex128) for x in (one, got, other))
        same = (got == one) | (np.isnan(got) & np.isnan(one))
        return same | (np.isfinite(one) & (1000 * np.abs(got - one) <= np.abs(other - one)))


def _loose(runs: list[np.ndarray]) -> np.ndarray:
    if is_float(runs[0]) or runs[0].dtype.kind == "c":
        return Bounds(runs).loose()
    return np.any([r != runs[0] for r in runs], axis=0)


def _wrong(runs: list[np.ndarray], got: np.ndarray, differ: np.ndarray) -> np.ndarray:
    if is_float(got) or got.dtype.kind == "c":
        return Bounds(runs).wrong(got) & differ
    # an integer that rounding moves may move to a value that none of the runs has
    return differ & ~_loose(runs)
