"""Random torch programs through a door of xloom's, against the CPU: `python -m tests.judges.torch_composed --door device`.

Programs run in child processes, so that one that dies is counted and the others go on; one that is wrong is cut down.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.judges.child import run_cases
from tests.judges.torch_composed.judging import DOORS

_PART = 25
"""Programs whose verdicts come together."""

_PARTS = 12
"""Parts that one child runs; what compilers keep of them goes with it."""


def main() -> int:
    """Judges, and prints what is wrong and a line of counts; 1 when anything was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--door", default="device", choices=DOORS)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a program may take")
    parser.add_argument("--out", help="where to write what is not right, as lines of JSON")
    options = parser.parse_args()
    start = time.perf_counter()
    last = options.seed + options.count
    parts = [(options.door, at, min(at + _PART, last)) for at in range(options.seed, last, _PART)]
    of_children = [parts[at : at + _PARTS] for at in range(0, len(parts), _PARTS)]
    counts: Counter[str] = Counter()
    found: list[dict[str, str]] = []

    def judge(items: list[tuple[str, int, int]]) -> None:
        for verdict in run_cases("tests.judges.torch_composed.judging:cases", items, options.timeout):
            status, message = verdict["status"], verdict["message"]
            refused = status == "unsupported" or message.startswith("refused")
            kind = "refused" if refused else {"pass": "right", "fail": "wrong", "crash": "dead"}.get(status, status)
            counts[kind] += 1
            if kind not in ("right", "skipped"):
                print(f"{verdict['name']} {kind}: {message}\n", flush=True)
            if kind != "right":
                found.append({**verdict, "kind": kind})

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(judge, of_children))
    if options.out:
        Path(options.out).write_text("".join(json.dumps(each) + "\n" for each in found))
    seconds = time.perf_counter() - start
    kinds = ", ".join(f"{counts[kind]} {kind}" for kind in ("right", "wrong", "dead", "refused", "skipped"))
    print(f"{options.door}, seeds {options.seed} to {last - 1}: {kinds}; {seconds / options.count:.2f} s a program")
    return int(counts["wrong"] + counts["dead"] > 0)


if __name__ == "__main__":
    sys.exit(main())
