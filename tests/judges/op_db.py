"""torch's op_db through xloom's doors, against the CPU: `python -m tests.judges.op_db --door device --filter conv`.

Operators run in child processes, so that one that crashes is counted and the others go on. Verdicts go to a file of
JSON lines, from which a later call goes on where an earlier one has stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent


def main() -> int:
    """Judges, and prints a summary; 1 when an operator crashed."""
    options = _options()
    if options.child:
        return _child(options)
    path = Path(options.out)
    verdicts = {} if options.again else _read(path)
    from tests.judges.op_db_case import operators

    names = [n for n in operators() if re.search(options.filter, n)]
    todo = [n for n in names if n not in verdicts]
    if options.again and path.exists():
        path.unlink()
    while todo:
        todo = _run_children(options, todo, path)
    verdicts = {n: v for n, v in _read(path).items() if n in set(names)}
    return _report(verdicts, options.show)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--door", default="table", choices=["table", "compile", "device"])
    parser.add_argument("--filter", default="", help="a regular expression that operators' names must match")
    parser.add_argument("--dtypes", default="f32,i64,bool,c64,bf16")
    parser.add_argument("--samples", type=int, default=8, help="at most so many an operator and dtype")
    parser.add_argument("--drawn", type=int, default=0, help="instead, so many samples an operator, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0, help="draws dtypes, samples and forms of operands for --drawn")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that an operator may take")
    parser.add_argument("--out", default="op_db.jsonl")
    parser.add_argument("--again", action="store_true", help="forget the verdicts of earlier calls")
    parser.add_argument("--show", type=int, default=40, help="how many failures to print")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _read(path: Path) -> dict[str, Any]:
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {row["op"]: row for row in rows}


def _run_children(options: argparse.Namespace, todo: list[str], path: Path) -> list[str]:
    """Judges operators in a child until it ends; what is left to do."""
    command = [sys.executable, "-m", "tests.judges.op_db", "--child", "--door", options.door]
    command += ["--dtypes", options.dtypes, "--samples", str(options.samples)]
    command += ["--drawn", str(options.drawn), "--seed", str(options.seed)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, env=environment
    )
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write("\n".join(todo).encode())
    child.stdin.close()
    lines: queue.Queue[bytes | None] = queue.Queue()
    stream = child.stdout

    def listen() -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=listen, daemon=True).start()
    left = list(todo)
    with path.open("a") as out:
        while left:
            try:
                line = lines.get(timeout=options.timeout)
            except queue.Empty:
                child.kill()
                line = None
                crash = f"no verdict after {options.timeout:g} s"
            else:
                crash = ""
            if line is None:
                child.wait()
                row = {"op": left[0], "crash": crash or f"exit status {child.returncode}", "dtypes": {}}
                out.write(json.dumps(row) + "\n")
                return left[1:]
            row = json.loads(line)
            out.write(json.dumps(row) + "\n")
            out.flush()
            left.remove(row["op"])
    child.wait()
    return left


def _child(options: argparse.Namespace) -> int:
    from tests.judges.op_db_case import DOORS, DTYPES, drawn, judged, operators

    known = operators()
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what operators print is no verdict
    for name in sys.stdin.read().split("\n"):
        op = known[name]
        supported = op.supported_dtypes("cpu")
        dtypes = [dtype for dtype in options.dtypes.split(",") if DTYPES[dtype] in supported]
        door = DOORS[options.door]
        if options.drawn:
            verdicts = drawn(op, dtypes, door, options.drawn, options.seed) if dtypes else {}
        else:
            verdicts = {dtype: judged(op, dtype, door, options.samples) for dtype in dtypes}
        channel.write(json.dumps({"op": name, "dtypes": verdicts, "fallbacks": _fallbacks()}) + "\n")
    return 0


def _fallbacks() -> list[str]:
    """Operators that ran on the CPU since the last question."""
    from xloom.torch.metrics import METRICS

    found = sorted(METRICS.fallbacks)
    METRICS.fallbacks.clear()
    return found


def _report(verdicts: dict[str, Any], show: int) -> int:
    kinds = Counter()
    reasons: list[str] = []
    for name, row in sorted(verdicts.items()):
        kinds["operators"] += 1
        kinds["crash"] += bool(row.get("crash"))
        kinds["fallback"] += bool(row.get("fallbacks"))
        for kind in ("forward", "gradient"):
            found = {d: v[kind] for d, v in row["dtypes"].items() if v[kind] is not None}
            if not found and not row.get("crash"):
                continue
            kinds[f"{kind} total"] += 1
            failed = {d: r for d, r in found.items() if r != "pass"}
            kinds[f"{kind} pass"] += not failed and not row.get("crash")
            reasons += [f"{name} {d} {kind}: {r}" for d, r in failed.items()]
        if row.get("crash"):
            reasons.append(f"{name}: {row['crash']}")
    for reason in reasons[:show]:
        print(reason)
    for kind in ("forward", "gradient"):
        total = max(1, kinds[f"{kind} total"])
        print(f"{kind}: {kinds[f'{kind} pass']} of {total} operators ({100 * kinds[f'{kind} pass'] / total:.1f} %)")
    print(f"{kinds['operators']} operators, {kinds['fallback']} needed the CPU, {kinds['crash']} crashed")
    return int(kinds["crash"] > 0)


if __name__ == "__main__":
    sys.exit(main())
