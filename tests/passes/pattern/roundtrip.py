"""Is a module the same as before it was outlined and expanded?"""

from dataclasses import dataclass

from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse
from xloom.interpreter import evaluate
from xloom.interpreter.samples import random_arguments
from xloom.passes import outline_pattern, run_passes
from xloom.passes.hooks import difference
from xloom.passes.pattern import find_pattern
from xloom.passes.structural_identity import StructuralIdentity

LARGE_FIRST = (
    "attention",
    "layer_norm",
    "rms_norm",
    "rotary_embedding",
    "bias_activation",
    "gelu",
    "gelu_erf",
    "softmax",
)
"""The library, in an order that leaves no large match without its parts."""


@dataclass(frozen=True)
class Outcome:
    """How many matches of which pattern were outlined, and what is wrong, or an empty string."""

    found: dict[str, int]
    wrong: str


def library_outlined(module: Module, form: str, *, values: bool) -> Outcome:
    """Outlines the whole library in what passes `form` make of a module, and expands it: it must be what it was.

    `values` compares those of both modules, too.
    """
    before = module.clone("")
    run_passes(before, form)
    after = before.clone("")
    counts = {name: len(outline_pattern(after, find_pattern(name), "K-" + name).found) for name in LARGE_FIRST}
    found = {name: count for name, count in counts.items() if count}
    run_passes(after, "")  # verifies
    back = expanded(after)
    if not same(back, before):
        return Outcome(found, "the expanded module is another")
    sample = random_arguments(before, 1) if values else ()
    wrong = difference(evaluate(before, *sample), evaluate(back, *sample)) if values else ""
    return Outcome(found, f"its values are others: {wrong}" if wrong else "")


def expanded(module: Module) -> Module:
    """A copy without custom calls that carry HLO."""
    copy = module.clone("")
    run_passes(copy, "expand")
    return copy


def same(one: Module, other: Module) -> bool:
    """True when two modules are equal up to names, tuples taken apart at once, and constants written twice."""
    structure = StructuralIdentity()
    numbers = []
    for module in (one, other):
        # through text, so that a default that is written out is the same as one that is not
        copy = parse(module.to_text(print_large_constants=True))
        run_passes(copy, "tuple-simplification,cse,dce")
        numbers.append(structure.number(copy.entry))
    return numbers[0] == numbers[1]
