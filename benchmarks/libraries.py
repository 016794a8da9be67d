"""Products, convolutions and sorts against the libraries that people call for them: OpenBLAS, oneDNN and NumPy.

python -m benchmarks.libraries [PATTERN] writes libraries.json when it measured all, which the results page shows.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from benchmarks.agreement import difference
from benchmarks.figures import duration, factor
from benchmarks.one_by_one import one_by_one
from benchmarks.programs import PROGRAMS, Program
from benchmarks.programs.arguments import Argument, integers, normal
from benchmarks.sides import bytecode, compile_ours
from benchmarks.timing import Run, alternate, median_wall, ratios

_FOLDER = Path(__file__).parent
_REPEATS = 15

Measure = Callable[[], list[float]]  # seconds of the library and of xloom, and the ratio
Ways = list[Callable[[], np.ndarray]]  # a library may have several


def _compare(program: Program, prepare: Callable[[list[np.ndarray]], Ways]) -> list[float]:
    """Against the fastest of a library's ways, all of which give our result."""
    arguments = program.make_arguments()
    ours = compile_ours(bytecode(program), arguments)
    theirs = prepare(arguments)
    for run in theirs:
        wrong = difference(ours.results(), [run()], program.tolerance)
        if wrong:
            raise ValueError(f"{program.name}: {wrong}")
    runs: list[Run] = [ours.run, *theirs]
    first, *others = alternate(*runs, repeats=_REPEATS)
    best = min(others, key=median_wall)
    return [median_wall(best), median_wall(first), statistics.median(ratios(best, first))]


def _product(size: int) -> Measure:
    def run(arguments: list[np.ndarray]) -> Ways:
        x, y = arguments
        return [lambda: x @ y]

    return lambda: _compare(PROGRAMS[f"matmul/gemm-{size}"], run)


def _convolution(name: str) -> Measure:
    def run(arguments: list[np.ndarray]) -> Ways:
        from benchmarks.torch_convolutions import CONVOLUTIONS

        return CONVOLUTIONS[name](arguments)

    return lambda: _compare(PROGRAMS[f"convolution/{name}"], run)


def _sort(argument: Argument) -> Measure:
    program = Program("sorting/sort", lambda x: jnp.sort(x), (argument,))
    return lambda: _compare(program, lambda arguments: [lambda: np.sort(arguments[0])])


_KEYS = {
    "f32": normal,
    "s32": lambda n: integers(n, low=-(1 << 31), high=1 << 31),
    "s16": lambda n: integers(n, low=-(1 << 15), high=1 << 15, dtype=np.int16),
}
_CONVOLUTIONS = [p.name.split("/")[1] for p in PROGRAMS.values() if p.family == "convolution"]

CASES: dict[str, dict[str, Measure]] = {
    "OpenBLAS (NumPy)": {f"gemm-{n}": _product(n) for n in (64, 128, 256, 512, 1024, 2048)},
    "oneDNN (PyTorch)": {n: _convolution(n) for n in _CONVOLUTIONS},
    "NumPy": {
        f"sort-{kind}-{1 << k}": _sort(make(1 << k)) for k in (10, 12, 14, 17, 20) for kind, make in _KEYS.items()
    },
}


def main(pattern: str) -> None:
    """A row a case."""
    # as many threads as ours; those that spin would hold the processors while ours run
    os.environ |= {"OMP_NUM_THREADS": str(len(os.sched_getaffinity(0))), "OMP_WAIT_POLICY": "passive"}
    found: dict[str, dict[str, list[float]]] = {}
    cases = [(library, name) for library, cases in CASES.items() for name in cases if re.search(pattern, name)]
    for (library, name), seconds, say in one_by_one("benchmarks.libraries", cases):
        theirs, ours, ratio = found.setdefault(library, {})[name] = seconds
        say(f"{name}: {library} {duration(theirs)}, xloom {duration(ours)}, ratio {factor(ratio)}")
    if not pattern:
        (_FOLDER / "libraries.json").write_text(json.dumps(found, indent=1) + "\n")


def section() -> list[str]:
    """The part of the results page about this; nothing when it was not measured."""
    path = _FOLDER / "libraries.json"
    if not path.exists():
        return []
    found: dict[str, dict[str, list[float]]] = json.loads(path.read_text())
    return [
        "",
        "## Against libraries",
        "",
        "What people call for the same work: NumPy's product, PyTorch's convolution in the faster of its two orders of",
        "memory, NumPy's sort. Blocks of calls alternate on all threads, calls from Python included; above 1, xloom is",
        "faster. `make bench-libraries` makes it.",
        "",
        "| program | library | its time | xloom | ratio |",
        "|---|---|--:|--:|--:|",
        *(
            f"| {name} | {library} | {duration(theirs)} | {duration(ours)} | {factor(ratio)} |"
            for library, rows in found.items()
            for name, (theirs, ours, ratio) in rows.items()
        ),
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps({"figures": CASES[sys.argv[2]][sys.argv[3]]()}))
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "")
