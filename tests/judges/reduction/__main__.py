"""Plants faults in large modules and reduces these."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path

from rich.progress import track

from tests.judges.reduction.faults import FAULTS, dropped_operator, wrong_rule
from tests.judges.reduction.programs import jax_module, random_module
from xloom.hlo.module import Module
from xloom.hlo.verify.module import verify
from xloom.reduction import Progress, reduce

MOST = 10
"""Instructions that may be left."""
_SIZES = (500, 1_000, 2_000, 5_000, 10_000)
_EVALUATED = (500, 800, 1_500)
"""Sizes of modules that are evaluated at each try."""
_LAYERS = (1, 2, 4)
_JAX_EVERY = 5


def count(module: Module) -> int:
    """All instructions, parameters too."""
    return sum(map(len, module.computations))


def case(seed: int, number: int) -> dict[str, object]:
    """What came of one fault."""
    chance = random.Random(f"faults {seed}:{number}")
    plant = FAULTS[number % len(FAULTS)]
    sizes = _EVALUATED if plant in (wrong_rule, dropped_operator) else _SIZES
    turn = number // len(FAULTS)
    if turn % _JAX_EVERY == _JAX_EVERY - 1:
        module = jax_module(_LAYERS[number % len(_LAYERS)])
    else:
        module = random_module(seed, number, sizes[(turn + number) % len(sizes)])
    fault = plant(module, chance)
    steps: list[Progress] = []
    begin = time.monotonic()
    small = reduce(module, fault.fails, progress=steps.append)
    seconds = time.monotonic() - begin
    verify(small)
    return {
        "number": number,
        "module": module.name,
        "fault": fault.text,
        "before": count(module),
        "after": count(small),
        "tries": steps[-1].tries,
        "seconds": round(seconds, 1),
        "text": small.to_text(print_large_constants=True),
    }


def main() -> None:
    """Exit status 1 if a module stays larger than it should."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("build/reduction.jsonl"), help="to go on from")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    known = {record["number"]: record for record in map(json.loads, lines)}
    for number in track(range(options.count), "faults", disable=not sys.stdout.isatty()):
        if number not in known:
            known[number] = case(options.seed, number)
            with options.out.open("a") as file:
                file.write(json.dumps(known[number]) + "\n")
        record = known[number]
        print("{number:3} {before:6} -> {after:3}  {tries:5} tries {seconds:8} s  {fault}".format(**record), flush=True)
    records = [known[number] for number in range(options.count)]
    large = [r for r in records if r["after"] > MOST]
    for record in large:
        print(record["fault"], record["text"], sep="\n")
    print(f"{len(records) - len(large)} of {len(records)} come down to at most {MOST} instructions")
    sys.exit(bool(large))


if __name__ == "__main__":
    main()
