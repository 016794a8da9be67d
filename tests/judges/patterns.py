"""Which operators of JAX, flax, equinox, optax, PyTorch and transformers the library's patterns find.

    python -m tests.judges.patterns [--from jax.nn,flax] [--pattern attention,softmax] [--out rows.jsonl]

Each case is a function of a library, small, that holds some number of a pattern's operators. A row says how many were
found, raw and simplified, what the calls say, and whether the expanded program computes what it did.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

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
    missed: str = ""

    @property
    def complete(self) -> bool:
        """Whether all were found, and the expanded program computes what it did."""
        return self.found == self.of and not self.wrong


Key = tuple[str, str, str, str]
"""Pattern, source, case, form."""


def judged(pattern: str, module: Module, of: int, form: str) -> Row:
    """Outlines a pattern in a module, and compares values with those of the expanded one."""
    before = module.clone("")
    run_passes(before, FORMS[form])
    after = before.clone("")
    done = outline_pattern(after, find_pattern(pattern), "Kernel")
    says = str(done.found[0].description) if done.found else ""
    if not done.found:
        return Row(0, of, "", "", done.missed[0].reason if done.missed else "nothing like it")
    run_passes(after, "expand")
    arguments = random_arguments(before, 1)
    return Row(len(done.found), of, says, difference(evaluate(before, *arguments), evaluate(after, *arguments)))


def main(arguments: list[str]) -> int:
    """Prints a row for each case and form, then the table; 1 if something is missed or wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", default="", help="sources, with commas between")
    parser.add_argument("--pattern", default="", help="patterns, with commas between")
    parser.add_argument("--out", default="", help="a file of rows, to go on from")
    parser.add_argument("--verbose", action="store_true", help="what the calls say")
    options = parser.parse_args(arguments)
    chosen = [
        c
        for c in CASES
        if (not options.source or c.source in options.source.split(","))
        and (not options.pattern or c.pattern in options.pattern.split(","))
    ]
    rows = _kept(options.out)
    built = cache(_built)
    for number, case in enumerate(chosen):
        if all((case.pattern, case.source, case.name, form) in rows for form in FORMS):
            continue
        print(f"[{number + 1}/{len(chosen)}] {case.pattern} {case.source} {case.name}", flush=True)
        module = built(case.build)
        if module is None:
            continue
        for form in FORMS:
            key = (case.pattern, case.source, case.name, form)
            row = rows[key] = judged(case.pattern, module, case.count, form)
            mark = "ok  " if row.complete else "MISS"
            print(
                f"{mark} {form:7} {row.found}/{row.of} {row.says if options.verbose else ''}{row.wrong or row.missed}",
                flush=True,
            )
            if options.out:
                with open(options.out, "a", encoding="utf-8") as file:
                    file.write(json.dumps([*key, *astuple(row)]) + "\n")
    wanted = {(c.pattern, c.source, c.name) for c in chosen}
    shown = {key: row for key, row in rows.items() if key[:3] in wanted}
    print(table(shown))
    found = sum(row.complete for row in shown.values())
    print(f"{found} of {len(shown)} rows are complete")
    return int(found != len(FORMS) * len(chosen))


def table(rows: Mapping[Key, Row]) -> str:
    """What is found of how many, by pattern and source, as Markdown; both forms where they differ."""
    sources = list(dict.fromkeys(source for _, source, _, _ in rows))
    lines = [f"| | {' | '.join(sources)} |", "|---|" + "---|" * len(sources)]
    for pattern in dict.fromkeys(key[0] for key in rows):
        cells = []
        for source in sources:
            said = []
            for form in FORMS:
                here = [row for (p, s, _, f), row in rows.items() if (p, s, f) == (pattern, source, form)]
                found = sum(row.found for row in here if not row.wrong)
                said.append(f"{found}/{sum(row.of for row in here)}" if here else "")
            cells.append(said[0] if len(set(said)) == 1 else f"{said[0]}, simplified {said[1]}")
        lines.append(f"| {pattern} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _kept(out: str) -> dict[Key, Row]:
    """The rows of an earlier run; those that were not complete are made again."""
    rows: dict[Key, Row] = {}
    if out and Path(out).is_file():
        for line in Path(out).read_text(encoding="utf-8").splitlines():
            pattern, source, name, form, *row = json.loads(line)
            rows[pattern, source, name, form] = Row(*row)
    return {key: row for key, row in rows.items() if row.complete}


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
