"""Faults between processes, many times each: how often every process that lives says the right thing, and how soon.

Seconds are from the collective on until the first process has an error of it, or its results; the limit is four.

Those of a network are between two simulated machines, where these can be made; the limit is eight seconds there.

python -m tests.judges.faults [--times 20] [--only dies,raises]
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence

from tests.distributed import machines, network_faults, test_network
from tests.distributed.test_faults import FATAL, OTHERS, check, outcome

NETWORK = test_network.FAULTS
_PATIENCE = 600
"""Seconds in which all faults of a network have had their end."""


def attempt(faults: Sequence[str]) -> dict[str, tuple[str, float]]:
    """What was wrong about each fault, or an empty string; and after how many seconds the first process went on."""
    of_network = faults[0] in NETWORK
    if of_network:
        said_by_each, _ = network_faults.outcome(*faults, limit=test_network.LIMIT, timeout=_PATIENCE)
        ended = [(status, said, _last_word(errors)) for status, said, errors in said_by_each]
    else:
        ended = [(status, said, "") for status, said in outcome(*faults)]
    found = {}
    for fault in faults:
        patterns = (FATAL[fault],) if fault in FATAL else {**OTHERS, **NETWORK}[fault]
        wrong = ""
        for process, pattern in enumerate(patterns):
            status, said, last = ended[process]
            try:
                assert status == 0, f"exit status {status} {last}"
                (test_network.check if of_network else check)(said, fault, pattern)
            except AssertionError as error:
                wrong = f"process {process}: {error}"
        seconds = re.search(rf"^{fault}: ([\d.]+) s ", ended[0][1], re.MULTILINE)
        found[fault] = wrong, float(seconds[1]) if seconds else float("nan")
    return found


def _last_word(errors: str) -> str:
    """What ended a process: JAX, MPI, or an error in Python."""
    found = re.findall(r"^(?:F\d{4} |Abort\(|[\w.]*Error: ).*", errors, re.MULTILINE)
    return found[-1][:200] if found else ""


def main() -> int:
    """Tries, and prints a line a fault; 1 if any was not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", default="", help="names of faults, separated by commas")
    options = parser.parse_args()
    why_not = machines.why_not()
    names = options.only.split(",") if options.only else [*FATAL, *OTHERS, *(() if why_not else NETWORK)]
    if why_not and not options.only:
        print(f"without faults of a network: {why_not}")
    groups = [[name] for name in names if name in FATAL]
    groups += [[name for name in names if name in table] for table in (OTHERS, NETWORK)]
    wrong = 0
    for group in filter(None, groups):
        right = dict.fromkeys(group, 0)
        took: dict[str, list[float]] = defaultdict(list)
        for _ in range(options.times):
            for fault, (message, seconds) in attempt(group).items():
                right[fault] += not message
                took[fault].append(seconds)
                if message:
                    print(f"  {fault}: {message}", flush=True)
        for fault, count in right.items():
            least, median, most = min(took[fault]), statistics.median(took[fault]), max(took[fault])
            times = f"after {least:.1f} s at least, {median:.1f} s in the median, {most:.1f} s at most"
            print(f"{fault}: {count} of {options.times} right, {times}", flush=True)
            wrong += options.times - count
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
