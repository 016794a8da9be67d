"""Plants wrong values, and counts those that are found at their instruction."""

from __future__ import annotations

import argparse
import sys
import time

from rich.progress import track

from tests.judges.first_difference.planted import KINDS, is_right, planted


def main() -> None:
    """Exit status 1 if one is not found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    right = 0
    for number in track(range(options.count), "values", disable=not sys.stdout.isatty()):
        kind = list(KINDS)[number % len(KINDS)]
        found = planted(options.seed, number, stateful=number // len(KINDS) % 2 == 1)
        begin = time.monotonic()
        said = KINDS[kind](found)
        seconds = time.monotonic() - begin
        right += is_right(found, said)
        count = sum(map(len, found.module.computations))
        answer = f"%{said.instruction.name} {' in '.join(said.inside)}" if said is not None else "nothing"
        verdict = "right" if is_right(found, said) else "WRONG"
        print(f"{number:3} {verdict} {kind}, %{found.victim} of {count}: {answer} {seconds:.1f} s", flush=True)
        if verdict == "WRONG":
            print(said, found.module.to_text(print_large_constants=True), sep="\n")
    print(f"{right} of {options.count} are found at the right instruction")
    sys.exit(right < options.count)


if __name__ == "__main__":
    main()
