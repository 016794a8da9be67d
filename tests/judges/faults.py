"""Faults between processes, many times each: how often every process that lives says the right thing.

python -m tests.judges.faults [--times 20] [--only dies,raises]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.distributed.test_faults import FATAL, OTHERS, check, outcome


def attempt(faults: Sequence[str]) -> dict[str, str]:
    """What was wrong about each fault, or an empty string."""
    ended = outcome(*faults)
    found = {}
    for fault in faults:
        patterns = (FATAL[fault],) if fault in FATAL else OTHERS[fault]
        found[fault] = ""
        for process, pattern in enumerate(patterns):
            status, said = ended[process]
            try:
                assert status == 0, f"exit status {status}"
                check(said, fault, pattern)
            except AssertionError as error:
                found[fault] = f"process {process}: {error}"
    return found


def main() -> int:
    """Tries, and prints a line a fault; 1 if any was not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", default="", help="names of faults, separated by commas")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [*FATAL, *OTHERS]
    groups = [[name] for name in names if name in FATAL] + [[name for name in names if name in OTHERS]]
    wrong = 0
    for group in filter(None, groups):
        right = dict.fromkeys(group, 0)
        for _ in range(options.times):
            for fault, message in attempt(group).items():
                right[fault] += not message
                if message:
                    print(f"  {fault}: {message}", flush=True)
        for fault, count in right.items():
            print(f"{fault}: {count} of {options.times} right", flush=True)
            wrong += options.times - count
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
