"""A small set of programs against another version: a checkout, a commit or a wheel. Which have lost?

python -m benchmarks.regression --against REF|FOLDER|WHEEL [--filter PATTERN] [--repeats 9] [--most 1.1] [--out FILE]

Each version has a process of its own, and blocks of calls alternate between the two. A program that takes longer than
`most` times as long as before is measured twice more, and is lost if it does so each time. Exit status 1 if one is.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

from benchmarks.figures import duration, factor
from benchmarks.progress import progress_bar
from benchmarks.result import geometric_mean

ROOT = Path(__file__).parent.parent
STABLE = (
    "dispatch/empty",
    "dispatch/hundred-arguments",
    "elementwise/gelu",
    "elementwise/silu-bf16",
    "indexing/gather-rows",
    "indexing/scatter-add-rows",
    "layout/transpose-heads",
    "linalg/fft",
    "linalg/cholesky",
    "loops/rnn",
    "loops/lstm",
    "matmul/gemm-256",
    "matmul/gemm-256-bf16",
    "matmul/gemv",
    "matmul/attention",
    "convolution/3x3",
    "pooling/max",
    "random/threefry-bits",
    "reduction/softmax",
    "reduction/layer-norm",
    "reduction/sum-columns",
    "scan/cumsum-rows",
    "simulation/heat",
    "sorting/sort",
    "sorting/top-k-rows",
    "training/mlp-step",
)
"""Some of each kind."""
_BLOCK_SECONDS = 0.02
_CONFIRMED = 2
"""How often a loss is measured again."""


class SideError(Exception):
    """What a version said instead of a result."""


class Side:
    """A process of one version."""

    def __init__(self, source: Path, cache: Path):
        environment = {**os.environ, "PYTHONPATH": str(source), "XLOOM_CACHE_DIR": str(cache)}
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "benchmarks" / "regression_side.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, **asked: Any) -> float:
        """Seconds. Raises SideError where the version cannot."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"error": "the process ended"}')
        if "error" in answer:
            raise SideError(answer["error"])
        return answer["seconds"]

    def close(self) -> None:
        """Lets it end."""
        self._process.communicate(timeout=60)


@contextmanager
def source_of(version: str) -> Iterator[Path]:
    """The folder that has the package `xloom` of a wheel, of a checkout, or of a commit of this repository."""
    path = Path(version)
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                wheel.extractall(folder)
            yield folder
        elif (path / "src" / "xloom").is_dir():
            yield path.resolve() / "src"
        else:
            tree = folder / "tree"
            git = ["git", "-C", str(ROOT), "worktree"]
            added = subprocess.run([*git, "add", "--detach", str(tree), version], capture_output=True, check=False)
            if added.returncode:
                raise click.ClickException(f"{version} is no wheel, checkout or commit: {added.stderr.decode()}")
            stack.callback(subprocess.run, [*git, "remove", "--force", str(tree)], check=False)
            yield tree / "src"


def compare(before: Side, now: Side, name: str, folder: Path, repeats: int) -> list[float]:
    """Seconds of a call before and now, and the median of neighbours' ratios, now over before.

    Raises SideError."""
    from benchmarks.programs import PROGRAMS
    from benchmarks.sides import bytecode

    program = PROGRAMS[name]
    arrays = [np.asarray(a) for a in program.make_arguments()]
    (folder / "program").write_bytes(bytecode(program))
    np.savez(folder / "arguments.npz", *(a.view(f"u{a.itemsize}") if a.dtype.kind == "V" else a for a in arrays))
    sides = (before, now)
    for side in sides:
        side.ask(
            program=str(folder / "program"),
            arguments=str(folder / "arguments.npz"),
            dtypes=[a.dtype.name for a in arrays],
        )
    calls = max(1, round(_BLOCK_SECONDS / max(1e-7, before.ask(calls=3))))
    times: tuple[list[float], list[float]] = ([], [])
    for k in range(repeats):
        for which in (0, 1) if k % 2 == 0 else (1, 0):
            times[which].append(sides[which].ask(calls=calls))
    ratios = [b / a for a, b in zip(*times, strict=True)]
    return [*map(statistics.median, times), statistics.median(ratios)]


def judged(before: Side, now: Side, name: str, folder: Path, repeats: int, most: float) -> list[float]:
    """The figures with the least ratio of those that it takes to be sure."""
    best = compare(before, now, name, folder, repeats)
    for _ in range(_CONFIRMED):
        if best[-1] <= most:
            break
        best = min(best, compare(before, now, name, folder, repeats), key=lambda figures: figures[-1])
    return best


@click.command()
@click.option("--against", required=True, help="A commit, a checkout's folder, or a wheel.")
@click.option("--filter", "-f", "pattern", default="", help="Only programs whose name has this pattern.")
@click.option("--repeats", type=click.IntRange(1), default=9, show_default=True, help="Alternated pairs a program.")
@click.option("--most", default=1.1, show_default=True, help="A program that takes so many times as long is lost.")
@click.option("--out", type=click.Path(path_type=Path), help="Keep results here, and go on from those that are.")
def main(against: str, pattern: str, repeats: int, most: float, out: Path | None) -> None:
    """Say which programs take longer than with another version."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out and out.exists() else []
    found: dict[str, list[float] | str] = {row["name"]: row["figures"] for row in rows}
    wanted = [name for name in STABLE if re.search(pattern, name)]
    with source_of(against) as source, TemporaryDirectory() as name, progress_bar() as progress:
        folder = Path(name)
        before, now = Side(source, folder / "before"), Side(ROOT / "src", folder / "now")
        task = progress.add_task("", total=len(wanted), completed=sum(name in found for name in wanted))
        for name in wanted:
            if name in found:
                continue
            progress.update(task, description=name)
            try:
                found[name] = judged(before, now, name, folder, repeats, most)
            except SideError as error:
                found[name] = str(error)
            progress.update(task, advance=1)
            progress.console.print(line(name, found[name]), markup=False, highlight=False)
            if out:
                with out.open("a") as file:
                    file.write(json.dumps({"name": name, "figures": found[name]}) + "\n")
        before.close()
        now.close()
    lost = report({name: found[name] for name in wanted}, against, most)
    sys.exit(1 if lost else 0)


def report(found: dict[str, list[float] | str], against: str, most: float) -> list[str]:
    """Prints the mean and what has lost or failed, and returns the latter's names."""
    measured = {name: figures for name, figures in found.items() if not isinstance(figures, str)}
    if measured:
        mean = geometric_mean([figures[-1] for figures in measured.values()])
        print(f"{len(measured)} programs take {factor(mean)} of the time that {against} takes")
    lost = [name for name, figures in found.items() if isinstance(figures, str) or figures[-1] > most]
    print(*(f"lost: {line(name, found[name])}" for name in lost), sep="\n")
    return lost


def line(name: str, figures: list[float] | str) -> str:
    """A program's result as text."""
    if isinstance(figures, str):
        return f"{name}: {figures}"
    before, now, ratio = figures
    return f"{name}: {duration(before)} before, {duration(now)} now, ratio {factor(ratio)}"


if __name__ == "__main__":
    main()
