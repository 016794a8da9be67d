"""What the library's patterns find in whole models, each pattern by itself: a table of models and patterns.

python -m tests.judges.pattern_models [--out models.jsonl] [--model gpt2]
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.passes.pattern.framework_models import MODELS
from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse
from xloom.passes import outline_pattern, run_passes
from xloom.passes.pattern import find_pattern
from xloom.passes.pattern.sources import LIBRARY

FORM = "call-inlining,dce"
PATTERNS = sorted(path.stem for path in LIBRARY.glob("*.hlo"))


def models() -> dict[str, Callable[[], Module]]:
    """Those written in JAX alone, then those of libraries; what PyTorch makes last, as it takes long to import."""
    in_jax: dict[str, Any] = importlib.import_module("tests.passes.pattern.models").MODELS

    def lowered(name: str) -> Module:
        import jax

        function, arguments = in_jax[name]
        return parse(jax.jit(function).lower(*arguments).as_text(dialect="hlo"))

    found: dict[str, Callable[[], Module]] = {f"jax {name}": lambda name=name: lowered(name) for name in in_jax}
    return found | dict(sorted(MODELS.items(), key=lambda item: item[0].startswith(("torch", "transformers"))))


def counts(module: Module) -> dict[str, int]:
    """How many matches each pattern has, without those that have none."""
    run_passes(module, FORM)
    found = {name: len(outline_pattern(module.clone(""), find_pattern(name), "Kernel").found) for name in PATTERNS}
    return {name: count for name, count in found.items() if count}


def table(rows: dict[str, dict[str, int]]) -> str:
    """As Markdown: a line for each model."""
    lines = ["| model | found |", "|---|---|"]
    for name, found in rows.items():
        lines.append(f"| {name} | {', '.join(f'{count} {pattern}' for pattern, count in found.items()) or 'nothing'} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Prints a line for each model, then the table; 1 if a model could not be made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="part of a name")
    parser.add_argument("--out", default="", help="a file of rows, to go on from")
    options = parser.parse_args(arguments)
    rows: dict[str, dict[str, int]] = {}
    if options.out and Path(options.out).is_file():
        rows = dict(json.loads(line) for line in Path(options.out).read_text(encoding="utf-8").splitlines())
    chosen = {name: build for name, build in models().items() if options.model in name}
    for number, (name, build) in enumerate(chosen.items()):
        if name in rows:
            continue
        print(f"[{number + 1}/{len(chosen)}] {name}", flush=True)
        try:
            rows[name] = counts(build())
        except Exception:
            traceback.print_exc()
            continue
        if options.out:
            with open(options.out, "a", encoding="utf-8") as file:
                file.write(json.dumps([name, rows[name]]) + "\n")
    shown = {name: rows[name] for name in chosen if name in rows}
    print(table(shown))
    return int(len(shown) != len(chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
