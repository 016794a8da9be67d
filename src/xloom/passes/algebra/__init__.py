"""The rules of algebraic simplification, one file per kind of operator; each rule has its equation above it."""

from xloom.passes.algebra import arithmetic, bitwise, compare_select, unary
from xloom.passes.rewrite import RuleTable

RULES = RuleTable(arithmetic.rule, bitwise.rule, compare_select.rule, unary.rule)
"""Those of all files: a new file's table is named here."""

__all__ = ["RULES"]
