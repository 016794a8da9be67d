"""Measures cases of the sweep one after the other in this process.

python -m benchmarks.sweep.child WIDE REPEATS SECONDS NAME... prints a line of JSON when a case begins, and its result.
A case that takes longer than SECONDS ends the process.
"""

from __future__ import annotations

import gc
import json
import signal
import sys

import jax

from benchmarks.result import Result
from benchmarks.sides import bytecode
from benchmarks.sweep.case import Case
from benchmarks.sweep.families import CASES
from benchmarks.trial import one_line, try_program


def measure(case: Case, repeats: int) -> Result:
    """Whatever happens short of a crash is an answer."""
    try:
        return try_program(case, bytecode(case), repeats, lambda _: None)
    except Exception as error:
        return Result(case.name, "failed", one_line(error))


def main(wide: str, repeats: str, seconds: str, *names: str) -> None:
    """What a child process does."""
    jax.config.update("jax_enable_x64", wide == "True")
    cases = {case.name: case for case in CASES}
    gc.freeze()  # what was imported stays: the collections between blocks need not look at it
    for name in names:
        print(json.dumps({"begins": name}), flush=True)
        # not handled: it ends native code as well
        signal.alarm(int(seconds))
        print(json.dumps({"result": measure(cases[name], int(repeats)).to_json()}), flush=True)
    signal.alarm(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
