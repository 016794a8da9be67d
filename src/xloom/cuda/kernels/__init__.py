"""Operators with kernels of their own, one family per file."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xloom.cuda.lowering import ThunkLowering
    from xloom.hlo.instruction import Instruction

Rule = Callable[["ThunkLowering", "Instruction"], None]
_RULES: dict[str, Rule] = {}
FILES = {
    "cholesky": "linear_systems",
    "convolution": "dot",
    "dot": "dot",
    "fft": "fft",
    "fusion": "dot",
    "reduce-window": "element_nests",
    "rng": "rng",
    "rng-get-and-update-state": "rng",
    "scatter": "scatter",
    "sort": "sort",
    "triangular-solve": "linear_systems",
}
"""The file with the rule of an opcode."""


def kernel(*opcodes: str) -> Callable[[Rule], Rule]:
    """Registers `rule(lowering, instruction)`, which adds the launches of an instruction."""

    def register(rule: Rule) -> Rule:
        for opcode in opcodes:
            _RULES[opcode] = rule
        return rule

    return register


def rule_of_call(instruction: Instruction) -> Rule | None:
    """The rule of a custom call that kernels of ours do; None where it is none."""
    if not instruction["custom_call_target"].startswith(("lapack_", "cu_lu_")):
        return None
    return import_module(f"{__name__}.lapack_calls").call_rule(instruction)


def rule_of(opcode: str) -> Rule | None:
    """The rule of an opcode that is no part of loop nests; None where there is none yet."""
    if opcode not in _RULES and opcode in FILES:
        import_module(f"{__name__}.{FILES[opcode]}")
    if opcode in _RULES:
        return _RULES[opcode]
    from xloom.cuda.kernels.item_threads import has_item_kernels, lower_by_items

    return lower_by_items if has_item_kernels(opcode) else None
