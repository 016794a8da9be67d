"""Whole models, inference: torch.compile(backend="xloom") against inductor, ONNX Runtime and OpenVINO.

    make bench-models                                    all models, f32, batch 1
    make bench-models MODELS=resnet50,vit_b BATCH=1,8 DTYPES=f32,bf16 OUT=models.jsonl
    python -m benchmarks.models --sides xloom,inductor   what needs no .venv-models

Each model is a process of its own: sides get the same weights, are compared with eager mode, and take turns with two
threads each; a time is the median of their turns. Ratios are a side's time over xloom's, so that above 1 xloom is
faster; `first` is how long a side takes until its first result is there, with nothing cached. inductor freezes weights.
Of models with gigabytes of weights each side has a process of its own, one after another. A side that does not take a
model is listed with what it says. OUT gets a line of JSON for each row, as soon as it is there, with least times too.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.child import ChildError, limited_threads, run_child
from benchmarks.figures import duration, factor
from benchmarks.progress import progress_bar
from benchmarks.result import geometric_mean

_SIDES = ("xloom", "inductor", "onnxruntime", "openvino")
_DEPLOYED = ("onnxruntime", "openvino")


def main(arguments: Sequence[str] | None = None) -> None:
    """A row for each model, batch and type; then the geometric means."""
    options = _options(arguments)
    if options.one:
        from benchmarks.models.measurement import measure

        name, batch, dtype = options.one
        sides = options.sides.split(",")
        found = measure(name, int(batch), dtype, sides, options.threads, options.repeats)
        print(json.dumps({"sides": found}))
        return
    from benchmarks.models.zoo import MODELS

    names = [n for n in options.models.split(",") if n] or [n for n in MODELS if n != "tiny"]
    for name in names:
        if name not in MODELS:
            raise SystemExit(f"no model {name!r}: there are {', '.join(MODELS)}")
    cases = [(n, b, d) for d in options.dtypes.split(",") for b in options.batch.split(",") for n in names]
    rows: list[dict[str, Any]] = []
    with limited_threads(options.threads), progress_bar() as progress, TemporaryDirectory() as caches:
        task = progress.add_task("", total=len(cases))
        for number, case in enumerate(cases):
            progress.update(task, description=" ".join(case))
            row = {"model": case[0], "batch": int(case[1]), "dtype": case[2], "sides": []}
            each = options.sides.split(",")
            for k, sides in enumerate([[s] for s in each] if MODELS[case[0]].large else [each]):
                row["sides"] += _measured(case, sides, options, f"{caches}/{number}-{k}")
            rows.append(row)
            for line in _lines(row):
                progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
            if options.out:
                with Path(options.out).open("a") as file:
                    file.write(json.dumps(row) + "\n")
            progress.advance(task)
    for line in summary(rows):
        print(line)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="", help="names, with commas between; all by default")
    parser.add_argument("--batch", default="1", help="batches, with commas between")
    parser.add_argument("--dtypes", default="f32", help="f32, bf16, or both with a comma")
    parser.add_argument("--sides", default=",".join(_SIDES), help="with commas between; xloom is what others are over")
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))), help="of each side")
    parser.add_argument("--repeats", type=int, default=11, help="turns of each side")
    parser.add_argument("--timeout", type=float, default=1500, help="seconds that a model may take")
    parser.add_argument("--out", help="file for a line of JSON for each row")
    parser.add_argument("--one", nargs=3, metavar=("MODEL", "BATCH", "DTYPE"), help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _measured(case: tuple[str, ...], sides: list[str], options: argparse.Namespace, cache: str) -> list[dict[str, Any]]:
    command = ["benchmarks.models", "--one", *case, "--sides", ",".join(sides), "--threads", str(options.threads)]
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{cache}-inductor"  # which begins with nothing cached either
    try:
        return run_child([*command, "--repeats", str(options.repeats)], cache, options.timeout)["sides"]
    except (ChildError, KeyError) as error:
        return [{"side": s, "run": 0.0, "first": 0.0, "apart": 0.0, "problem": str(error)} for s in sides]


def _lines(row: dict[str, Any]) -> list[str]:
    """The row, and a line for each side that has something to say."""
    own = row["sides"][0]["run"]
    cells = [f"{row['model']:17} {row['dtype']:4} batch {row['batch']:<2}"]
    for side in row["sides"]:
        time = duration(side["run"]) if side["run"] else "-"
        ratio = f" {factor(side['run'] / own):>5}" if own and side["run"] and side is not row["sides"][0] else ""
        cells.append(f"{side['side']} {time:>7}{ratio} (first {side['first']:.1f} s)")
    problems = [f"    {s['side']}: {s['problem']}" for s in row["sides"] if s["problem"]]
    return [" | ".join(cells), *problems]


def _ratio(row: dict[str, Any], sides: Sequence[str]) -> float | None:
    """The fastest of these sides over the first one; None where nothing was measured, or values are wrong."""
    own = row["sides"][0]
    times = [s["run"] for s in row["sides"] if s["side"] in sides and s["run"] and not s["problem"]]
    return min(times) / own["run"] if times and own["run"] and not own["problem"] else None


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Geometric means over all rows, and the least ratio, of each side and of the better of those that are deployed."""
    lines = []
    for title, sides in [*((s, (s,)) for s in _SIDES[1:]), ("the better of the last two", _DEPLOYED)]:
        found = [(r, row) for row in rows if (r := _ratio(row, sides)) is not None]
        if found:
            least, row = min(found, key=lambda pair: pair[0])
            lines.append(
                f"{title}: {factor(geometric_mean(r for r, _ in found))} times xloom's time in the geometric mean of "
                f"{len(found)}; {factor(least)} at least, {row['model']} {row['dtype']} batch {row['batch']}"
            )
    return lines
