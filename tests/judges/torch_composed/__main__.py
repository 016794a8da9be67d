"""Random torch programs through a door of xloom's, against the CPU: `python -m tests.judges.torch_composed --door device`.

Programs run in child processes, so that one that dies is counted and the others go on. A program that was judged is in
the file that --out names and is not run again. The first that are wrong or refused are cut down and printed as Python;
that of any number is printed with --print.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.judges.child import run_cases

DOORS = ("device", "compile")
_PER_CHILD = 300
"""Programs that one child runs; what compilers keep of them goes with it."""

_NEXT_SEED = 10_000_000
"""Programs of a seed, before those of the next one."""


def main() -> int:
    """Judges, prints what is not right, and a line of counts; 1 if anything is wrong, refused or dead."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--door", default="device", choices=DOORS)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a program may take")
    parser.add_argument("--out", help="file with a line for each program, to go on from")
    parser.add_argument("--show", type=int, default=10, help="how many failing programs to cut down")
    parser.add_argument("--print", type=int, metavar="NUMBER", help="only prints the program of that number")
    options = parser.parse_args()
    os.environ["XLOOM_CACHE"] = "0"  # tens of thousands of programs
    if options.print is not None:
        from tests.judges.torch_composed.judging import made

        program = made(options.seed * _NEXT_SEED + options.print, options.door)
        print(program.text() if program else "the CPU does not run it")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return _judge(options, Path(options.out or Path(folder, "records.jsonl")))


def _judge(options: argparse.Namespace, file: Path) -> int:
    numbers = range(options.first, options.first + options.count)
    known = _records(options, file)
    left = [n for n in numbers if n not in known]
    batches = [left[k : k + _PER_CHILD] for k in range(0, len(left), _PER_CHILD)]
    with ThreadPoolExecutor(options.jobs) as threads:
        for _ in threads.map(lambda batch: _batch(options, batch, file), batches):
            pass
    records = _records(options, file)
    failing = [n for n in numbers if records[n]["status"] in ("wrong", "refused")][: options.show]
    for number, message in _verdicts(options, "cuts", failing):
        print(f"{number} {records[number]['status']}: {message['message']}\n", flush=True)
    return _report(options, [records[n] for n in numbers])


def _verdicts(options: argparse.Namespace, cases: str, numbers: list[int]):
    at = options.seed * _NEXT_SEED
    items = [(options.door, at + n) for n in numbers]
    for verdict in run_cases(f"tests.judges.torch_composed.judging:{cases}", items, options.timeout):
        yield int(verdict["name"]) - at, verdict


def _batch(options: argparse.Namespace, numbers: list[int], file: Path) -> None:
    start = time.perf_counter()
    for number, verdict in _verdicts(options, "cases", numbers):
        end = time.perf_counter()
        record = {"door": options.door, "seed": options.seed, "number": number, "status": _status(verdict)}
        record |= {"message": verdict["message"], "seconds": round(end - start, 3)}
        start = end
        with file.open("a") as lines:
            lines.write(json.dumps(record) + "\n")


def _status(verdict: dict[str, str]) -> str:
    status, message = verdict["status"], verdict["message"]
    if status == "unsupported" or message.startswith("refused"):
        return "refused"
    if message.startswith("no answer in"):
        return "hung"
    return {"pass": "agrees", "fail": "wrong", "crash": "died", "skipped": "no reference"}[status]


def _records(options: argparse.Namespace, file: Path) -> dict[int, dict]:
    """What is known of programs, by number; of several lines the last one."""
    if not file.exists():
        return {}
    records = map(json.loads, file.read_text().splitlines())
    return {r["number"]: r for r in records if (r["door"], r["seed"]) == (options.door, options.seed)}


def _report(options: argparse.Namespace, records: list[dict]) -> int:
    counts = Counter(record["status"] for record in records)
    for record in records:
        if record["status"] not in ("agrees", "no reference"):
            print(f"{record['number']} {record['status']}: {record['message']}")
    seconds = sum(record["seconds"] for record in records) / len(records)
    kinds = ", ".join(f"{n} {status}" for status, n in sorted(counts.items()))
    print(f"{options.door}, {len(records)} programs of seed {options.seed}: {kinds}; {seconds:.2f} s a program")
    return int(any(counts[s] for s in ("wrong", "refused", "died", "hung")))


if __name__ == "__main__":
    sys.exit(main())
