"""Patterns of HLO: where they come from, and where in a program they match."""

from xloom.passes.pattern.match import Match
from xloom.passes.pattern.matcher import Matcher
from xloom.passes.pattern.pattern import EITHER, Pattern
from xloom.passes.pattern.report import Found, NearMiss, Place, report_text
from xloom.passes.pattern.sources import PATTERNS, add_pattern, find_pattern, pattern_from_jax, pattern_of

__all__ = [
    "EITHER",
    "PATTERNS",
    "Found",
    "Match",
    "Matcher",
    "NearMiss",
    "Pattern",
    "Place",
    "add_pattern",
    "find_pattern",
    "pattern_from_jax",
    "pattern_of",
    "report_text",
]
