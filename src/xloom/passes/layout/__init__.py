"""Rewrites of operators that move elements without changing them; each rule has its equation above it."""

from xloom.passes.layout import (
    broadcasts,
    computed_operands,
    convolutions,
    copies,
    elementwise_products,
    products,
    reductions,
    slices,
    sorts,
    stacks,
    transposes,
    updates,
    windows,
)
from xloom.passes.rewrite import RuleTable

RULES = RuleTable(
    copies.rule,
    transposes.rule,
    convolutions.rule,
    elementwise_products.rule,
    products.rule,
    computed_operands.rule,
    broadcasts.rule,
    reductions.rule,
    slices.rule,
    sorts.rule,
    stacks.rule,
    updates.rule,
    windows.rule,
)
"""All of them."""

__all__ = ["RULES"]
