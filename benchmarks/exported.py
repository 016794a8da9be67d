"""Models compiled ahead of time: xl.export against AOTInductor and ONNX Runtime; size, time to load, latency.

    make bench-export                          ResNet-50 and a decoder of 110M weights, f32, batch 1
    make bench-export MODELS=tiny,vit_b

Each side writes its files once. Loading is timed in processes of its own that have imported what the side needs: until
the program is there, and until the first result is. Then all sides take turns in one process with as many threads;
times are medians, and ratios are a side's over xloom's, so that above 1 xloom is faster. Values are compared with eager
mode's.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from benchmarks.child import ChildError, limited_threads, run_child
from benchmarks.figures import duration, factor
from benchmarks.models.sides import Run, listed, open_onnx, write_onnx
from benchmarks.models.zoo import MODELS, Inputs, made
from benchmarks.progress import progress_bar
from benchmarks.timing import alternate, median_wall

Make = Callable[[nn.Module, Inputs, Path], None]
Load = Callable[[Path, Inputs, int], Run]


def _make_xloom(module: nn.Module, inputs: Inputs, folder: Path) -> None:
    import xloom as xl

    xl.export(module, inputs, name="model").save(folder / "libmodel.so", weights=folder / "model.weights")


def _load_xloom(folder: Path, inputs: Inputs, threads: int) -> Run:
    import xloom as xl

    program = xl.load_exported(folder / "libmodel.so", folder / "model.weights")
    arrays = [x.numpy() for x in inputs]

    def call() -> list[torch.Tensor]:
        found = program(*arrays)
        return [torch.from_numpy(y) for y in (found if isinstance(found, tuple) else (found,))]

    return call


def _make_inductor(module: nn.Module, inputs: Inputs, folder: Path) -> None:
    from torch._inductor import aoti_compile_and_package, config

    config.freezing = True
    with torch.no_grad():
        aoti_compile_and_package(torch.export.export(module, inputs), package_path=str(folder / "model.pt2"))


def _load_inductor(folder: Path, inputs: Inputs, threads: int) -> Run:
    from torch._inductor import aoti_load_package

    torch.set_num_threads(threads)
    program = aoti_load_package(str(folder / "model.pt2"))

    def call() -> list[torch.Tensor]:
        with torch.no_grad():
            return listed(program(*inputs))

    return call


def _make_onnxruntime(module: nn.Module, inputs: Inputs, folder: Path) -> None:
    write_onnx(module, inputs, folder / "model.onnx")


def _load_onnxruntime(folder: Path, inputs: Inputs, threads: int) -> Run:
    return open_onnx(folder / "model.onnx", inputs, threads)


SIDES: dict[str, tuple[Make, Load, str]] = {
    "xloom": (_make_xloom, _load_xloom, "xloom.aot"),
    "aot inductor": (_make_inductor, _load_inductor, "torch._inductor"),
    "onnxruntime": (_make_onnxruntime, _load_onnxruntime, "onnxruntime"),
}
"""What writes the files, what loads them, and what is imported before the clock starts."""


def main(arguments: Sequence[str] | None = None) -> None:
    """A row for each model and side."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.exported", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="", help="names, with commas between; those of bench-models")
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))), help="of each side")
    parser.add_argument("--repeats", type=int, default=11, help="turns of each side")
    parser.add_argument("--one", nargs=4, metavar=("WHAT", "MODEL", "SIDE", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        what, model, side, folder = options.one
        answer = {"make": _made, "load": _loaded, "run": _run}[what](model, side, Path(folder), options)
        print(json.dumps(answer))
        return
    models = [m for m in options.models.split(",") if m] or ["resnet50", "decoder_100m"]
    with limited_threads(options.threads), progress_bar() as progress, TemporaryDirectory() as folder:
        task = progress.add_task("", total=len(models) * (len(SIDES) * 2 + 1))
        for model in models:
            rows: dict[str, dict[str, Any]] = {side: {} for side in SIDES}
            steps = [(what, side) for side in SIDES for what in ("make", "load")]
            for what, side in steps:
                progress.update(task, description=f"{model}: {what} {side}")
                rows[side].update(_child(what, model, side, Path(folder), options))
                progress.advance(task)
            progress.update(task, description=f"{model}: run")
            times = _child("run", model, ",".join(s for s in SIDES if "problem" not in rows[s]), Path(folder), options)
            progress.advance(task)
            for side, row in rows.items():
                line = _line(model, side, row, times.get(side), times.get("xloom"))
                progress.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _child(what: str, model: str, side: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    own = ["--threads", str(options.threads), "--repeats", str(options.repeats)]
    try:
        return run_child(
            ["benchmarks.exported", "--one", what, model, side, str(folder), *own], str(folder / "cache"), 1500
        )
    except ChildError as error:
        return {"problem": str(error)}


def _folder(folder: Path, model: str, side: str) -> Path:
    return folder / f"{model}-{side}".replace(" ", "-")


def _inputs(model: str) -> Inputs:
    torch.manual_seed(1)
    return MODELS[model].inputs(1)


def _made(model: str, side: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(options.threads)
    own = _folder(folder, model, side)
    own.mkdir()
    module, inputs = made(MODELS[model], torch.float32), _inputs(model)
    start = time.perf_counter()
    SIDES[side][0](module, inputs, own)
    seconds = time.perf_counter() - start
    return {"made": seconds, "bytes": sum(file.stat().st_size for file in own.rglob("*") if file.is_file())}


def _loaded(model: str, side: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    __import__(SIDES[side][2])
    inputs = _inputs(model)
    start = time.perf_counter()
    run = SIDES[side][1](_folder(folder, model, side), inputs, options.threads)
    there = time.perf_counter() - start
    run()
    return {"loaded": there, "first": time.perf_counter() - start}


def _run(model: str, sides: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(options.threads)
    inputs = _inputs(model)
    with torch.no_grad():
        (expected, *_) = listed(made(MODELS[model], torch.float32)(*inputs))
    names = sides.split(",")
    runs = [SIDES[side][1](_folder(folder, model, side), inputs, options.threads) for side in names]
    for side, run in zip(names, runs, strict=True):
        error = (run()[0] - expected).abs().max() / expected.square().mean().sqrt()
        if not error < 2e-3:
            raise ValueError(f"{side} has other values than eager mode: {error:.2g} of their size apart")
    blocks = alternate(*runs, repeats=options.repeats)
    return {side: median_wall(b) for side, b in zip(names, blocks, strict=True)}


def _line(model: str, side: str, row: dict[str, Any], seconds: float | None, ours: float | None) -> str:
    if "problem" in row or seconds is None or ours is None:
        return f"{model:14} {side:13} {row.get('problem', 'not timed')}"
    return (
        f"{model:14} {side:13} {row['bytes'] / 2**20:7.1f} MiB, made in {duration(row['made'])}, loaded in "
        f"{duration(row['loaded'])}, first result after {duration(row['first'])}, a run {duration(seconds)} "
        f"({factor(seconds / ours)} of xloom's)"
    )


if __name__ == "__main__":
    main()
