"""Which operators of JAX, flax, equinox, optax, PyTorch and transformers the library's patterns find.

    python -m tests.judges.patterns [--from jax|flax|...] [--pattern NAME]

Each case is a function of a library, small, that holds some number of a pattern's operators. A row says how many were
found, raw and simplified, what the calls say, and whether the expanded program computes what it did.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tests.judges.pattern_cases import CASES
from xloom.hlo.module import Module
from xloom.interpreter import evaluate
from xloom.interpreter.samples import random_arguments
from xloom.passes import outline_pattern, run_passes
from xloom.passes.hooks import difference
from xloom.passes.pattern import find_pattern

FORMS = {
    "raw": "call-inlining,dce",
    "simple": "call-inlining,algebraic-simplification,layout-simplification,constant-folding,cse,dce",
}


@dataclass(frozen=True)
class Row:
    """One case in one form: how many were found of how many, what the first call says, what is wrong."""

    found: int
    of: int
    says: str
    wrong: str


def judged(pattern: str, module: Module, of: int, form: str) -> Row:
    """Outlines a pattern in a module, and compares values with those of the expanded one."""
    before = module.clone("")
    run_passes(before, FORMS[form])
    after = before.clone("")
    done = outline_pattern(after, find_pattern(pattern), "Kernel")
    says = str(done.found[0].description) if done.found else ""
    if not done.found:
        return Row(0, of, "", done.missed[0].reason if done.missed else "nothing like it")
    run_passes(after, "expand")
    arguments = random_arguments(before, 1)
    return Row(len(done.found), of, says, difference(evaluate(before, *arguments), evaluate(after, *arguments)))


def main(arguments: list[str]) -> int:
    """Prints a row for each case; 1 if something is missed or wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="source", default="")
    parser.add_argument("--pattern", default="")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    built = cache(_built)
    found = of = 0
    for case in CASES:
        if options.source and case.source not in options.source.split(","):
            continue
        if options.pattern and case.pattern not in options.pattern.split(","):
            continue
        module = built(case.build)
        if module is None:
            continue
        for form in FORMS:
            row = judged(case.pattern, module, case.count, form)
            found, of = found + (row.found == row.of and not row.wrong), of + 1
            mark = "ok  " if row.found == row.of and not row.wrong else "MISS"
            said = row.says if options.verbose else ""
            print(
                f"{mark} {case.pattern:24} {case.source:12} {case.name:32} {form:7} {row.found}/{row.of} {said}{row.wrong}"
            )
            sys.stdout.flush()
    print(f"{found} of {of} rows are complete")
    return found != of


def _built(build: Callable[[], Module]) -> Module | None:
    try:
        return build()
    except ImportError as error:
        print(f"--   {build.__name__}: {error}")
    except Exception:
        traceback.print_exc()
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
