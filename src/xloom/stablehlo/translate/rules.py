"""The rules by the names of MLIR's operations, and what each may have for attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from xloom.stablehlo.translate.scope import Scope


class NotTranslatedError(Exception):
    """A program has something that no rule here is for."""


Translate = Callable[["Scope", Any], None]


class Rule(NamedTuple):
    """How an operation is translated: `translate` adds its instructions to a scope and tells what its results are."""

    translate: Translate
    attributes: frozenset[str]
    """Names that it knows."""


RULES: dict[str, Rule] = {}


def rule(*names: str, attributes: str = "") -> Callable[[Translate], Translate]:
    """Registers the rule of operations that have no other attributes than these."""

    def register(translate: Translate) -> Translate:
        for name in names:
            RULES[name] = Rule(translate, frozenset(attributes.split()))
        return translate

    return register
