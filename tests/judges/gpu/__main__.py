"""Judges a GPU: `python -m tests.judges.gpu`. What it has, and what there is to it, is said in `tests/judges/gpu`."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.judges.child import run_cases
from tests.judges.gpu.correctness import Item
from tests.judges.gpu.machine import left_out, no_gpu
from tests.judges.gpu.recorded import files
from tests.judges.gpu.sources import SOURCES
from xloom.llvm.target import GPUS, target_named

FOLDER = Path("build/judge_gpu")
_TIMEOUT = 60
"""Seconds that a program may take."""
_SHARES: Mapping[str, float] = {
    "benchmarks": 0.25,
    **dict.fromkeys(SOURCES, 0.08),
    "jax door": 0.08,
    "torch door": 0.08,
    "custom calls door": 0.02,
    "sanitizer": 0.12,
}
"""Of the time, which each section has at most, in the order in which they run."""


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where something is wrong."""
    options = _options(arguments)
    folder = Path(options.folder)
    if options.build:
        from tests.judges.gpu.build import build

        sources = [name for name in SOURCES if not options.only or name in options.only.split(",")]
        counts = build(folder, target_named(options.target), sources, options.share, not options.no_code)
        print(f"{folder}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
        return 0
    if not any(files(folder, source) for source in SOURCES):
        print(f"{folder} has no programs: make judge-gpu-build makes them, on any machine", file=sys.stderr)
        return 2
    reason = no_gpu(folder) if options.on == "gpu" else ""
    if reason:
        print(f"nothing is judged: {reason}", file=sys.stderr)
        print("  the same on an emulated one: make judge-gpu ON=emulator", file=sys.stderr)
        _out(options, folder).write_text(json.dumps({"on": "gpu", "target": options.target, "nothing": reason}))
        return 2
    return Judge(options, folder).judge()


def _out(options: argparse.Namespace, folder: Path) -> Path:
    """The file for the results."""
    return Path(options.out or folder / "gpu.json")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", action="store_true", help="make what is judged; needs no GPU")
    parser.add_argument("--no-code", action="store_true", help="do not assemble kernels: for emulators")
    parser.add_argument("--share", type=float, default=1.0, help="of the programs that are made")
    parser.add_argument("--on", choices=("gpu", "emulator"), default="gpu")
    parser.add_argument("--target", choices=GPUS, default="sm_90a", help="the GPU")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--step", type=int, default=1, help="one program of so many")
    parser.add_argument("--only", default="", help=f"sections: {', '.join(_SHARES)}")
    parser.add_argument("--folder", default=str(FOLDER))
    parser.add_argument("--out", default="", help="a file for the results as JSON; by default gpu.json in the folder")
    return parser.parse_args(arguments)


class Judge:
    """Runs sections in order, and writes what is known after each."""

    def __init__(self, options: argparse.Namespace, folder: Path):
        self._options, self._folder = options, folder
        self._out = _out(options, folder)
        self._left_out = left_out()
        self._results: dict[str, Any] = {"on": options.on, "target": options.target, "left out": self._left_out}
        self._results["sections"] = {}

    def judge(self) -> int:
        """1 where something is wrong."""
        for line in self._left_out:
            print(line)
        only = self._options.only.split(",") if self._options.only else list(_SHARES)
        failed = 0
        for section in (name for name in _SHARES if name in only):
            start = time.monotonic()
            result = self._run(section, _SHARES[section] * self._options.minutes * 60)
            result["seconds"] = round(time.monotonic() - start, 1)
            failed += bool(result.get("wrong"))
            self._results["sections"][section] = result
            self._out.write_text(json.dumps(self._results, indent=1))
            shown = {k: v for k, v in result.items() if k not in ("rows", "wrong")}
            print(f"{section}: {json.dumps(shown)}", flush=True)
            for line in result.get("wrong", [])[:5]:
                print(f"  {line[:300]}", flush=True)
        print(f"{self._out}: {failed} sections with something wrong")
        return 1 if failed else 0

    def _run(self, section: str, seconds: float) -> dict[str, Any]:
        if section == "benchmarks":
            return self._benchmarks(seconds)
        if section == "sanitizer":
            return self._sanitized(seconds)
        door = section.removesuffix(" door")
        where = "tests.judges.gpu.correctness:cases" if door == section else "tests.judges.gpu.doors:cases"
        return self._cases(where, door, seconds)

    def _cases(self, where: str, source: str, seconds: float) -> dict[str, Any]:
        """Runs a source's programs, each in a child, as long as there is time."""
        options = self._options
        item = Item(str(self._folder), source, options.on, options.target, options.step)
        verdicts = list(_until(run_cases(where, [item], min(_TIMEOUT, seconds)), seconds))
        counts = Counter(v["status"] for v in verdicts)
        wrong = [
            f"{v['name']} {v['status']}: {v['message']}"
            for v in verdicts
            if v["status"] in ("fail", "crash", "unsupported")
        ]
        return {**counts, "wrong": wrong}

    def _benchmarks(self, seconds: float) -> dict[str, Any]:
        options = self._options
        command = [sys.executable, "-m", "tests.judges.gpu.speed", options.on, options.target, str(self._folder)]
        done = _limited(command, seconds)
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        wrong = [f"{row['name']}: {row['error']}" for row in rows if "error" in row]
        if done.returncode:
            wrong.append(f"ended by {done.returncode}: {done.stderr.strip()[-300:]}")
        return {"measured": len(rows), "rows": rows, "wrong": wrong}

    def _sanitized(self, seconds: float) -> dict[str, Any]:
        """A few kernels by NVIDIA's compute-sanitizer, where it is installed."""
        tool = shutil.which("compute-sanitizer")
        if tool is None or self._options.on == "emulator":
            return {"skipped": "there is no compute-sanitizer" if tool is None else "for GPUs only"}
        found: dict[str, Any] = {"wrong": []}
        for check in ("memcheck", "racecheck", "synccheck"):
            command = [tool, "--tool", check, "--error-exitcode", "9", "--target-processes", "all"]
            judged = [sys.executable, "-m", "tests.judges.gpu", "--only", "kernels,products", "--step", "6"]
            places = ["--folder", str(self._folder), "--out", str(self._folder / f"{check}.json")]
            done = _limited([*command, *judged, *places, "--minutes", str(seconds / 20)], seconds / 3)
            found[check] = done.returncode
            if done.returncode:
                found["wrong"].append(f"{check}: {done.stdout.strip()[-2000:]}")
        return found


def _until(verdicts: Iterator[dict[str, str]], seconds: float) -> Iterator[dict[str, str]]:
    end = time.monotonic() + seconds
    for verdict in verdicts:
        yield verdict
        if time.monotonic() > end:
            yield {"name": "the section", "status": "cut short", "message": ""}
            return


def _limited(command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        out = error.stdout or b""
        return subprocess.CompletedProcess(
            command, 124, out.decode() if isinstance(out, bytes) else out, "no time left"
        )


if __name__ == "__main__":
    sys.exit(main())
