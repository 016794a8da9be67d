"""Random programs about state on the CPU compiler, against the interpreter and jaxlib's XLA:CPU.

python -m tests.judges.stateful [--count 20000] [--seed 0] [--first 0] [--out stateful.jsonl]

With --out, what was judged before is not judged again: a line for each program says its number and what was found.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.judges.stateful.judge import AGREES, Judge


def main() -> None:
    """Prints what is found and the counts; exit status 1 if any program is wrong or dead."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one program")
    parser.add_argument("--out", help="file with a line for each program, to go on from")
    parser.add_argument("--show", type=int, default=5, help="how many of each kind to cut down and print")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    done = _known(options.out, options.seed, counts)
    started = time.monotonic()
    judged = 0
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(options.seed, options.timeout, Path(folder), options.show)
        with suppress(KeyboardInterrupt):  # what was found until then is still reported
            for number in range(options.first, options.first + options.count):
                if number in done:
                    continue
                found = judge.judge(number)
                judged += 1
                counts[found.kind] += 1
                if found.kind != AGREES:
                    print(f"{options.seed}:{number} {found.kind}: {found.message}\n{found.program}", flush=True)
                if options.out:
                    with Path(options.out).open("a") as file:
                        file.write(json.dumps({"seed": options.seed, "number": number, **found.as_line()}) + "\n")
        judge.stop()
    for kind, count in sorted(counts.items()):
        print(f"  {count:7d} {kind}")
    print(f"stateful: {sum(counts.values())} programs; {(time.monotonic() - started) / max(1, judged):.3f} s each")
    sys.exit(1 if any(kind.startswith(("wrong", "dead", "error")) for kind in counts) else 0)


def _known(file: str | None, seed: int, counts: Counter[str]) -> set[int]:
    """The programs that a file tells of."""
    if not file or not Path(file).exists():
        return set()
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    lines = [line for line in lines if line["seed"] == seed]
    counts.update(line["kind"] for line in lines)
    return {line["number"] for line in lines}


if __name__ == "__main__":
    main()
