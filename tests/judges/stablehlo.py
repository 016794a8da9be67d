"""StableHLO's golden tests on the interpreter or on native code.

python -m tests.judges.stablehlo --from <checkout of openxla/stablehlo> [--suite testdata|interpret|math|quantized]
    [--on interpreter|cpu|emulator]
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import xloom as xl
from tests.judges.child import Case, Skipped, report, run_cases
from tests.judges.stablehlo_cases import Program, programs
from xloom.cuda.emulator.executable import emulated
from xloom.interpreter.devices import evaluate_devices

SUITES = {
    "testdata": ("testdata",),
    "interpret": ("tests/interpret", "tests/interpret/chlo"),
    "math": ("tests/math",),
    "quantized": ("testdata/quantized",),
}


def cases(item: tuple[str, str, str]) -> Iterator[Case]:
    """The cases of a file: its path, its name in the checkout, and what to run it on."""
    path, name, on = item
    for program in programs(Path(path).read_text(), name):
        yield program.name, lambda program=program: judge(program, on)


def judge(program: Program, on: str) -> str:
    """What is wrong with the outputs; rounding alone, within 1e-3, is not."""
    if program.problem:
        raise Skipped(program.problem)
    outputs = run(program, on)
    problems = [check.problem(outputs) for check in program.checks]
    return "; ".join(message for message, rounding in problems if message and not rounding)


def run(program: Program, on: str) -> list[np.ndarray]:
    """The outputs, those of all devices one after another."""
    module = xl.from_stablehlo(program.module, program.name)
    if on in ("cpu", "emulator"):
        if program.grid is not None:
            raise Skipped("a program for several devices")
        compiled = xl.compile(module) if on == "cpu" else emulated(module)
        return _flat(compiled(*program.inputs))
    if program.grid is None:
        return _flat(xl.evaluate(module, *program.inputs))
    replicas, partitions = program.grid
    share = len(program.inputs) // (replicas * partitions)
    arguments = [program.inputs[k * share : (k + 1) * share] for k in range(replicas * partitions)]
    results = evaluate_devices(module, arguments, replicas=replicas, partitions=partitions, timeout=20)
    return [array for result in results for array in _flat(result)]


def _flat(value: object) -> list[np.ndarray]:
    return [np.asarray(v) for v in value] if isinstance(value, tuple) else [np.asarray(value)]


def main() -> None:
    """Prints the failures and one line of counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="checkout", required=True)
    parser.add_argument("--suite", choices=SUITES, default="testdata")
    parser.add_argument("--on", choices=["interpreter", "cpu", "emulator"], default="interpreter")
    parser.add_argument("--filter", default="", help="a regular expression: only files whose names hold it")
    parser.add_argument("--timeout", type=float, default=90, help="seconds for one case")
    parser.add_argument("--json", help="file for the verdict of each case")
    parser.add_argument("--show", type=int, default=20, help="how many failures to print")
    options = parser.parse_args()
    items = []
    for folder in SUITES[options.suite]:
        paths = sorted((Path(options.checkout) / "stablehlo" / folder).glob("*.mlir"))
        items += [(str(p), f"{folder}/{p.name}", options.on) for p in paths if re.search(options.filter, p.name)]
    if not items:
        parser.error(f"{options.checkout} holds no such tests")
    verdicts = list(run_cases("tests.judges.stablehlo:cases", items, options.timeout))
    report(f"stablehlo {options.suite} on {options.on}", verdicts, options.json, options.show)


if __name__ == "__main__":
    main()
