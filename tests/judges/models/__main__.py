"""Models of transformers, timm and diffusers, small and with random weights, through both doors against eager CPU.

python -m tests.judges.models [--models bert,timm/] [--doors compile,device] [--dtypes f32,bf16] [--out models.jsonl]
python -m tests.judges.models --speed --models transformers/bert,timm/resnet10t

Each model is called without gradients, and with gradients in evaluation and in training.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from itertools import product
from pathlib import Path

from tests.judges.child import report, run_cases
from tests.judges.models.cases import DOORS, case_name, modes, names

SAMPLE = (
    "transformers/bert,transformers/llama,transformers/t5,transformers/vit,timm/resnet10t,timm/convnextv2_atto,"
    "diffusers/unet,diffusers/flux"
)
"""Whose speed is measured, unless others are named."""


def _judge(
    chosen: list[str], doors: tuple[str, ...], dtypes: tuple[str, ...], timeout: float, out: Path | None
) -> None:
    verdicts = [json.loads(line) for line in out.read_text().splitlines()] if out and out.exists() else []
    known = {verdict["name"] for verdict in verdicts}
    for door, dtype in product(doors, dtypes):
        todo = [
            (name, (door,), dtype)
            for name in chosen
            if not {case_name(name, door, mode, dtype) for mode in modes(name)} <= known
        ]
        for verdict in run_cases("tests.judges.models.cases:cases", todo, timeout):
            print(f"{verdict['status']:12}{verdict['name']} {verdict['message'][:200]}", flush=True)
            verdicts.append(verdict)
            if out:
                with out.open("a") as file:
                    file.write(json.dumps(verdict) + "\n")
    report(f"{len(chosen)} models", verdicts, None, 60)


def _measure(chosen: list[str], out: Path | None) -> None:
    from tests.judges.models.speed import seconds

    ratios: dict[tuple[str, str, str], list[float]] = {}
    for name in chosen:
        for mode in ("inference", "training"):
            found = seconds(name, mode)
            shown = ", ".join(f"{side} {1e3 * time:.2f}" for side, time in found.items())
            print(f"{name} {mode}, ms: {shown}", flush=True)
            if out:
                with out.open("a") as file:
                    file.write(json.dumps({"name": name, "mode": mode, "seconds": found}) + "\n")
            for door in DOORS:
                for other in ("eager", "inductor"):
                    ratios.setdefault((mode, door, other), []).append(found[other] / found[door])
    for (mode, door, other), values in ratios.items():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"{mode}: {door} is {mean:.2f} times as fast as {other}, at least {min(values):.2f} times")


def main() -> None:
    """Prints verdicts or times; exits with 1 where a case failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="", help="parts of names, with commas between them; all if empty")
    parser.add_argument("--doors", default=",".join(DOORS))
    parser.add_argument("--dtypes", default="f32", help="f32, bf16 or both, with a comma between them")
    parser.add_argument("--speed", action="store_true", help="times instead of values, for a sample unless named")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a case may take")
    parser.add_argument("--out", default="", help="a file of JSON lines; verdicts go on from what it has")
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is fetched: weights are random
    parts = (options.models or (SAMPLE if options.speed else "")).split(",")
    chosen = [name for name in names() if any(part in name for part in parts)]
    out = Path(options.out) if options.out else None
    if options.speed:
        _measure(chosen, out)
    else:
        _judge(chosen, tuple(options.doors.split(",")), tuple(options.dtypes.split(",")), options.timeout, out)


if __name__ == "__main__":
    main()
