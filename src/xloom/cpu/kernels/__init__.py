"""Operators with a kernel of their own, a family a file: each has a real algorithm, not a generic loop."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from xloom.cpu.kernel import KERNELS, Rule

FAMILIES = {
    "cholesky": "cholesky",
    "convolution": "convolution",
    "dot": "dot",
    "fft": "fft",
    "ragged-dot": "dot",
    "reduce-window": "reduce_window",
    "rng": "random_state",
    "rng-bit-generator": "random",
    "rng-get-and-update-state": "random_state",
    "scaled-dot": "dot",
    "scan": "scan",
    "scatter": "scatter",
    "select-and-scatter": "select_and_scatter",
    "sort": "sort",
    "topk": "top_k",
    "triangular-solve": "triangular_solve",
}
"""The file of each opcode's rule, which is imported when a program has the opcode."""


def rule_of(opcode: str) -> Rule | None:
    """The rule of an opcode with a kernel of its own."""
    if opcode in FAMILIES and opcode not in KERNELS and find_spec(file := f"{__name__}.{FAMILIES[opcode]}"):
        import_module(file)
    return KERNELS.get(opcode)
