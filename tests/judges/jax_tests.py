"""JAX's own tests on xloom and on jaxlib's CPU, the same sample of each file.

    python -m tests.judges.jax_tests --from <checkout of jax-ml/jax at jax-v0.10.2> [--sample 25] [--files lax_test,...]

Each file runs in child processes: a test that kills or hangs its process is counted, and the others go on. Verdicts are
kept in the folder `--out`, from which a later call goes on where an earlier one has stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

CHILD = Path(__file__).with_name("jax_child.py")
FILES = [
    "lax_test",
    "lax_numpy_test",
    "lax_numpy_operators_test",
    "lax_numpy_reducers_test",
    "lax_control_flow_test",
    "linalg_test",
    "fft_test",
    "lax_scipy_test",
    "sparse_test",
    "random_test",
    "api_test",
    "aot_test",
    "compilation_cache_test",
    "ffi_test",
    "python_callback_test",
    "debugging_primitives_test",
    "checkify_test",
    "jaxpr_effects_test",
    "array_test",
    "array_interoperability_test",
    "layout_test",
    "memories_test",
    "multi_device_test",
    "pmap_test",
    "pjit_test",
    "shard_map_test",
    "ode_test",
]
PLATFORMS = {"cpu": "cpu", "xloom": "xloom,cpu"}
_POLL = 0.2
Verdicts = dict[str, dict[str, Any]]


class Runner:
    """The tests of one checkout, and what is known of them."""

    def __init__(self, checkout: Path, out: Path, dut: str, timeout: float):
        self.checkout = checkout
        self.out = out
        self.dut = dut
        self.timeout = timeout
        out.mkdir(parents=True, exist_ok=True)

    def sample(self, file: str, count: int) -> list[str]:
        """Evenly spaced tests of a file, or all of them with 0."""
        listing = self.out / f"{file}.list.jsonl"
        if not listing.exists():
            self._run(file, None, listing, "cpu").wait()
            if not listing.exists():
                sys.exit(f"{file} does not load: see {self.out / file}.cpu.log")
        ids = list(dict.fromkeys(row["id"] for row in _rows(listing)))
        if not count or count >= len(ids):
            return ids
        return [ids[int(k * len(ids) / count)] for k in range(count)]

    def verdicts(self, file: str, side: str, ids: list[str]) -> Verdicts:
        """Runs those tests of a file that have no verdict yet."""
        kept = self.out / f"{file}.{self._name(side)}.jsonl"
        while True:
            found = _verdicts(kept)
            left = [name for name in ids if found.get(name, {"verdict": "started"})["verdict"] == "started"]
            if not left:
                return {name: found[name] for name in ids}
            before = len(_rows(kept))
            ended = self._watch(self._run(file, left, kept, side), kept)
            rows = _rows(kept)
            started = [row["id"] for row in rows if row.get("verdict") == "started"]
            last = _verdicts(kept).get(started[-1]) if started and len(rows) > before else None
            if last is not None and last["verdict"] == "started":
                _append(kept, {"id": started[-1], "verdict": "crash", "message": ended})
            elif len(rows) == before:
                for name in left:
                    _append(kept, {"id": name, "verdict": "crash", "message": f"the file does not load: {ended}"})

    def _run(self, file: str, ids: list[str] | None, kept: Path, side: str) -> subprocess.Popen[bytes]:
        name = f"{file}.{self._name(side)}"
        chosen = self.out / f"{name}.ids.json"
        if ids is not None:
            chosen.write_text(json.dumps(ids))
        command = [sys.executable, str(CHILD), f"tests/{file}.py", "" if ids is None else str(chosen.resolve())]
        command += [str(kept.resolve()), "" if side == "cpu" else self.dut]
        environment = {**os.environ, "JAX_PLATFORMS": PLATFORMS[side], "JAX_SKIP_SLOW_TESTS": "0"}
        log = (self.out / f"{name}.log").open("ab")
        with log:
            return subprocess.Popen(command, cwd=self.checkout, env=environment, stdout=log, stderr=log)

    def _name(self, side: str) -> str:
        return side if side == "cpu" else f"{side}-as-{self.dut}"

    def _watch(self, child: subprocess.Popen[bytes], kept: Path) -> str:
        """Waits for the end of a child, or of its patience; says how it ended."""
        size, since = -1, time.monotonic()
        while child.poll() is None:
            time.sleep(_POLL)
            now = kept.stat().st_size if kept.exists() else 0
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > self.timeout:
                child.kill()
                child.wait()
                return f"no end after {self.timeout:g} s"
        return f"exit status {child.returncode}"


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _verdicts(path: Path) -> Verdicts:
    found: Verdicts = {}
    for row in _rows(path):
        # what fails in a test's last part, after it has passed, has failed
        if row["verdict"] != "pass" or found.get(row["id"], {}).get("verdict") == "started":
            found[row["id"]] = row
    return found


def _append(path: Path, row: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def compare(file: str, ours: Verdicts, theirs: Verdicts) -> Counter[str]:
    """Counts of one file; prints what passes on XLA:CPU and not here."""
    counts: Counter[str] = Counter()
    for name, reference in theirs.items():
        mine = ours[name]
        counts["crash"] += mine["verdict"] == "crash"
        if reference["verdict"] == "pass":
            counts["reference"] += 1
            counts[mine["verdict"]] += 1
            if mine["verdict"] in ("fail", "crash"):
                print(f"  {mine['verdict']} {name.partition('::')[2]}: {_first_line(mine['message'])}")
        elif mine["verdict"] == "crash":
            print(f"  crash {name.partition('::')[2]}: {mine['message']}")
    print(f"{file}: {_line(counts)}", flush=True)
    return counts


def _first_line(message: str) -> str:
    return message.strip().partition("\n")[0][:300]


def _line(counts: Counter[str]) -> str:
    # a test that the platform's name leaves out is nobody's success
    asked = counts["reference"] - counts["skip"] - counts["absent"]
    rate = f" ({100 * counts['pass'] / asked:.1f} %)" if asked else ""
    skipped = counts["skip"] + counts["absent"]
    return f"{counts['pass']} of {asked}{rate} that pass on XLA:CPU, {counts['crash']} crashes, {skipped} skipped"


def main() -> int:
    """Judges, and prints a line a file; 1 if any test crashed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="checkout", required=True, type=Path)
    parser.add_argument("--files", default=",".join(FILES), help="names of files, separated by commas")
    parser.add_argument("--sample", type=int, default=25, help="how many tests of a file; 0 for all")
    parser.add_argument(
        "--dut", default="cpu", help="what tests take xloom for: cpu, or xloom, for which they skip more"
    )
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a test may take")
    parser.add_argument("--out", default=Path("jax_tests"), type=Path, help="folder for verdicts")
    parser.add_argument("--json", type=Path, help="file for the counts of each file")
    options = parser.parse_args()
    runner = Runner(options.checkout, options.out, options.dut, options.timeout)
    table: dict[str, Counter[str]] = {}
    for file in options.files.split(","):
        ids = runner.sample(file, options.sample)
        theirs = runner.verdicts(file, "cpu", ids)
        table[file] = compare(file, runner.verdicts(file, "xloom", ids), theirs)
    total = sum(table.values(), Counter())
    print(f"all: {_line(total)}")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))
    return int(total["crash"] > 0)


if __name__ == "__main__":
    sys.exit(main())
