"""What the library's patterns find in whole models, each pattern by itself: a table of models and patterns.

A row says how many matches a pattern has, and with `escaping`, which makes of values that others use outputs; of how
many, where a model's definition says that.

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

FORM = "call-inlining,tuple-simplification,dce"
PATTERNS = sorted(path.stem for path in LIBRARY.glob("*.hlo"))
Row = dict[str, dict[str, int]]
"""Counts by pattern, `plain` and `escaping`, without those that are 0."""

HAS: dict[str, dict[str, int]] = {
    "jax gpt2": {"attention": 2, "layer_norm": 4, "layer_norm_residual": 3, "gelu": 2},
    "jax gpt2 gradient": {"attention": 2, "layer_norm": 4, "layer_norm_residual": 3, "gelu": 2},
    "jax bert": {"attention": 2, "layer_norm": 4, "layer_norm_residual": 4, "gelu_erf": 2},
    "jax llama": {"attention": 2, "rms_norm": 4, "rms_norm_residual": 3, "rotary_embedding": 4, "swiglu": 2},
    "jax vit": {"attention": 2, "layer_norm": 5, "layer_norm_residual": 3, "gelu": 2},
    "jax mixer": {"layer_norm": 4, "layer_norm_residual": 3, "gelu": 4},
    "jax convnet": {"softmax": 1},
    "flax_transformer": {"attention": 2, "layer_norm": 5, "layer_norm_residual": 4, "gelu": 2},
    "flax_mlp_gradient": {"gelu": 1},
    "flax_resnet_block": {},
    "equinox_convnet": {"gelu": 1, "softmax": 1},
    "equinox_attention": {"attention": 1, "rms_norm": 1, "rotary_embedding": 2},
    "optax_adam_step": {"adam": 2, "gelu": 1, "softmax": 1},
    "transformers_gpt2": {"attention": 2, "layer_norm": 5, "layer_norm_residual": 5, "gelu": 2},
    "transformers_bert": {"attention": 2, "layer_norm": 5, "layer_norm_residual": 5, "gelu_erf": 2},
    "transformers_llama": {
        "grouped_query_attention": 2, "rms_norm": 5, "rms_norm_residual": 4, "rotary_embedding": 4, "swiglu": 2,
    },
    "transformers_vit": {"attention": 2, "layer_norm": 5, "layer_norm_residual": 5, "gelu_erf": 2},
    "torch_encoder": {"attention": 1, "layer_norm": 2, "layer_norm_residual": 2, "gelu_erf": 1},
    "torch_encoder_gradient": {},
    "torch_resnet_block": {},
}  # fmt: skip
"""How many of each operator a model computes by its definition; parts of larger ones, such as softmax, aside."""


def models() -> dict[str, Callable[[], Module]]:
    """Those written in JAX alone, then those of libraries; what PyTorch makes last, as it takes long to import."""
    in_jax: dict[str, Any] = importlib.import_module("tests.passes.pattern.models").MODELS

    def lowered(name: str) -> Module:
        import jax

        function, arguments = in_jax[name]
        return parse(jax.jit(function).lower(*arguments).as_text(dialect="hlo"))

    found: dict[str, Callable[[], Module]] = {f"jax {name}": lambda name=name: lowered(name) for name in in_jax}
    return found | dict(sorted(MODELS.items(), key=lambda item: item[0].startswith(("torch", "transformers"))))


def counts(module: Module) -> Row:
    """How many matches each pattern has."""
    run_passes(module, FORM)
    row: Row = {}
    for kind, escaping in (("plain", False), ("escaping", True)):
        found = {
            name: len(outline_pattern(module.clone(""), find_pattern(name), "Kernel", escaping=escaping).found)
            for name in PATTERNS
        }
        row[kind] = {name: count for name, count in found.items() if count}
    return row


def table(rows: dict[str, Row]) -> str:
    """As Markdown: a line for each model, its own operators first."""
    lines = ["| model | found | with `escaping=true` |", "|---|---|---|"]
    for name, row in rows.items():
        plain, escaping = (_listed(row[kind], HAS[name]) for kind in ("plain", "escaping"))
        lines.append(f"| {name} | {plain or 'nothing'} | {'' if escaping == plain else escaping} |")
    return "\n".join(lines)


def _listed(found: dict[str, int], of: dict[str, int]) -> str:
    own = [f"{pattern} {found.get(pattern, 0)}/{count}" for pattern, count in of.items()]
    return ", ".join([*own, *(f"{pattern} {count}" for pattern, count in found.items() if pattern not in of)])


def main(arguments: list[str]) -> int:
    """Prints a line for each model, then the table; 1 if a model could not be made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="part of a name")
    parser.add_argument("--out", default="", help="a file of rows, to go on from")
    options = parser.parse_args(arguments)
    rows: dict[str, Row] = {}
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
