"""Random programs of JAX on the platform xloom and on XLA:CPU: do they return the same?

python -m tests.judges.composed [--count 1000] [--seed 0] [--first 0] [--types f64|all|embedded] [--jobs 1] [--out FILE]

With `--types embedded` a program is an operation of the sweep inside others, and its number that of the operation; so
many are taken as --count says, spread over all.

A program that was judged is in FILE and is not run again. The first that are wrong, refused or dead are cut down and
printed as Python; that of any number is printed with --print.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_PER_CHILD = 150  # programs, after which a child starts afresh: compiled code piles up
_CHEAP_REFERENCE = (  # a reference need not be fast
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_prefer_vector_width=128"
)


def main() -> int:
    """Runs, prints what is not right, and one line of counts; 1 if anything is wrong, refused or dead."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--types", choices=("f64", "all", "embedded"), default="f64")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one program")
    parser.add_argument("--out", help="file with a line for each program, to go on from")
    parser.add_argument("--show", type=int, default=10, help="how many failing programs to cut down")
    parser.add_argument("--print", type=int, metavar="NUMBER", help="only prints the program of that number")
    options = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "xloom,cpu"
    os.environ["XLA_FLAGS"] = _CHEAP_REFERENCE
    if options.print is not None:
        import jax

        from tests.judges.composed.trial import made

        jax.config.update("jax_enable_x64", True)
        case = made(options.seed, options.types, options.print)
        print(case.source() if case else "no program has that number")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XLOOM_CACHE"] = "0"  # tens of thousands of programs
        file = Path(options.out or Path(folder, "records.jsonl"))
        return _judge(options, file)


def _judge(options: argparse.Namespace, file: Path) -> int:
    numbers = _numbers(options)
    known = _records(file)
    left = [n for n in numbers if n not in known]
    batches = [tuple(left[k : k + _PER_CHILD]) for k in range(0, len(left), _PER_CHILD)]
    with ThreadPoolExecutor(options.jobs) as threads:
        for _ in threads.map(lambda batch: _batch(options, batch, file), batches):
            pass
    records = _records(file)
    failing = [n for n in numbers if records[n]["status"] in ("wrong", "refused", "died")][: options.show]
    if failing:
        from tests.judges.composed.cut_down import cut_down

        for small in cut_down(options.seed, options.types, failing, options.timeout):
            print(f"{small.number} {small.status}: {small.message}\n{small.source}\n", flush=True)
    return _report([records[n] for n in numbers])


def _numbers(options: argparse.Namespace) -> range:
    if options.types != "embedded":
        return range(options.first, options.first + options.count)
    from benchmarks.sweep.families import CASES

    return range(options.first, len(CASES), max(1, len(CASES) // options.count))


def _batch(options: argparse.Namespace, numbers: tuple[int, ...], file: Path) -> None:
    from tests.judges.child import run_cases
    from tests.judges.composed.task import Task

    task = Task(options.seed, options.types, numbers, str(file))
    for verdict in run_cases("tests.judges.composed.trial:cases", [task], options.timeout):
        if verdict["status"] != "pass":
            status = "died" if verdict["status"] == "crash" else "hung"
            if not verdict["message"].startswith(("the process died", "no answer")):
                status = "judge failed"
            elif Path(task.phase).read_text() != "ours":
                status = "no reference"
            _append(file, {"number": int(verdict["name"]), "status": status, "message": verdict["message"]})
    Path(task.phase).unlink(missing_ok=True)


def _append(file: Path, record: dict) -> None:
    with file.open("a") as lines:
        lines.write(json.dumps(record) + "\n")


def _records(file: Path) -> dict[int, dict]:
    if not file.exists():
        return {}
    return {r["number"]: r for r in map(json.loads, file.read_text().splitlines())}


def _report(records: list[dict]) -> int:
    counts = Counter(r["status"] for r in records)
    seconds: Counter[str] = Counter()
    for record in records:
        if record["status"] not in ("agrees", "no reference", "none"):
            print(f"{record['number']} {record['status']}: {record['message']}")
        seconds.update(record.get("seconds", {}))
    elements, compared, operators = (sum(r.get(k, 0) for r in records) for k in ("elements", "compared", "operators"))
    spent = ", ".join(f"{name} {total / len(records):.3f}" for name, total in seconds.items())
    print(f"seconds a program: {spent}")
    print(
        f"composed: {len(records)} programs of {operators / len(records):.1f} operators; "
        f"{', '.join(f'{n} {status}' for status, n in sorted(counts.items()))}; "
        f"of {elements} elements {100 * compared / max(1, elements):.2f} % compared tightly"
    )
    return int(any(counts[s] for s in ("wrong", "refused", "died", "hung", "judge failed")))


if __name__ == "__main__":
    sys.exit(main())
