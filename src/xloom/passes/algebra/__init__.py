"""Algebraic rewrites, one file per kind of operator; each rule has its equation above it."""

from xloom.passes.algebra import arithmetic, bits, choice, numbers
from xloom.passes.rewrite import RuleTable

RULES = RuleTable(arithmetic.rule, bits.rule, choice.rule, numbers.rule)
"""All of them."""

__all__ = ["RULES"]
