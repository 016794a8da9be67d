"""Scalar operators that do the same to certain operands and cost less: rewrites of graphs, before code is emitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xloom.llvm.scalar.operator import Operator

CHEAPER = {
    # log-plus-one(exponential(negate(abs(x)))) = log-plus-one-of-fraction(...): e^-|x| is in [0, 1]
    "log-plus-one": (("exponential", "negate", "abs"), "log-plus-one-of-fraction"),
}
"""By opcode: which operators its operand is the result of, the last first, and what it then is."""


def rewritten(operator: Operator, operands: Sequence[Any]) -> Operator:
    """The operator, or a cheaper one. `operands` are of any graph whose nodes have `opcode` and `operands`."""
    if operator.opcode not in CHEAPER:
        return operator
    chain, cheaper = CHEAPER[operator.opcode]
    (found,) = operands
    for opcode in chain:
        if getattr(found, "opcode", "") != opcode:
            return operator
        (found,) = found.operands
    return replace(operator, opcode=cheaper, attributes=())
