"""Libraries' own test suites on xloom and on the CPU of JAX or torch, the same sample of each.

    python -m tests.judges.libraries --from <folder of checkouts> [--sample 300] [--seed 0] [--libraries optax,lineax]
      [--as-cpu]

The folder has a checkout a library, named as its distribution and at the tag that library_suites.py has. Only what
passes on the CPU is asked for. Verdicts are kept in the folder `--out`, from which a later call goes on.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial
from importlib.metadata import version
from pathlib import Path

from tests.judges.jax_tests import AS_CPU, XLOOM
from tests.judges.library_suites import LIBRARIES, Library
from tests.judges.suite_runner import Child, Runner, Verdicts, concluded, first_line, python

CHILD = Path(__file__).with_name("library_child.py")
IN_PLACE_OF_CPU = "xloom-in-place-of-cpu"
BATCH = 50
"""Tests a child: to import a library takes as long as some of its tests."""


def library_child(library: Library, checkouts: Path, _: str, side: str, ids: str, kept: Path) -> Child:
    """A process that runs tests of a library on a side, or lists all."""
    platforms = {"xloom": XLOOM, IN_PLACE_OF_CPU: AS_CPU}.get(side, {"JAX_PLATFORMS": "cpu"})
    files = [] if ids else library.files(checkouts)
    command = python(CHILD, ids, str(kept), library.door, side, *files)
    return Child(command, checkouts / library.name, platforms)


def judge(
    library: Library, checkouts: Path, out: Path, sample: int, seed: int, timeout: float, as_cpu: bool = False
) -> Counter[str]:
    """Counts of one library; prints what passes on the CPU and not here: on the platform, or `as_cpu`."""
    side = IN_PLACE_OF_CPU if as_cpu and library.door == "jax" else "xloom"
    runner = Runner(partial(library_child, library, checkouts.resolve()), out, timeout)
    ids = runner.sample(library.name, sample, "cpu", seed)
    total: Counter[str] = Counter()
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        theirs = runner.verdicts(library.name, "cpu", batch)
        wanted = [name for name in batch if theirs[name]["verdict"] == "pass"]
        total += compare(library, wanted, theirs, runner.verdicts(library.name, side, wanted))
    print(f"{library.name} {version(library.name)}: {_line(total)}", flush=True)
    return total


def compare(library: Library, wanted: list[str], theirs: Verdicts, ours: Verdicts) -> Counter[str]:
    """Counts of tests that pass on the CPU."""
    counts: Counter[str] = Counter()
    for name in wanted:
        mine = ours[name]
        verdict = mine["verdict"]
        counts["reference"] += 1
        counts["pass" if verdict == "unused" else verdict] += 1
        if verdict in ("pass", "unused"):
            counts["unused"] += verdict == "unused"
            for side, row in ("cpu", theirs[name]), ("xloom", mine):
                counts[f"{side}_ms"] += round(1000 * row["seconds"])
                counts[f"{side}_processor_ms"] += round(1000 * row.get("processor", 0.0))
        else:
            print(f"  {verdict} {library.name} {name}: {first_line(mine.get('message', ''))}", flush=True)
    return counts


def _line(counts: Counter[str]) -> str:
    ours, theirs = (
        f"{counts[f'{side}_ms'] / 1000:.1f} s ({counts[f'{side}_processor_ms'] / 1000:.1f} s of processors)"
        for side in ("xloom", "cpu")
    )
    apart = f"{counts['crash']} crashes, {counts['skip']} skip themselves, {counts['unused']} compile nothing"
    passed = f"{counts['pass']} of {counts['reference'] - counts['skip']} that pass on the CPU"
    return f"{passed}; {apart}; {ours}, on the CPU {theirs}"


def main() -> int:
    """Judges, and prints a line a library; 1 if any test crashed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="checkouts", required=True, type=Path)
    parser.add_argument("--libraries", default="", help="names, separated by commas; all that are there")
    parser.add_argument("--sample", type=int, default=300, help="how many tests of a library; 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="chooses another sample")
    parser.add_argument("--as-cpu", action="store_true", help="xloom in the place of JAX's CPU")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a test may take")
    parser.add_argument("--out", default=Path("libraries"), type=Path, help="folder for verdicts")
    parser.add_argument("--json", type=Path, help="file for the counts of each library")
    options = parser.parse_args()
    chosen = options.libraries.split(",") if options.libraries else [known.name for known in LIBRARIES]
    run = partial(judge, sample=options.sample, seed=options.seed, timeout=options.timeout, as_cpu=options.as_cpu)
    table = {
        library.name: run(library, options.checkouts, options.out)
        for library in LIBRARIES
        if library.name in chosen and (options.checkouts / library.name).is_dir()
    }
    return concluded(table, _line, options.json)


if __name__ == "__main__":
    sys.exit(main())
