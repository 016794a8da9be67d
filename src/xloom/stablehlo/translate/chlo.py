"""CHLO: what HLO has, and what jaxlib expands."""

from __future__ import annotations

from typing import Any

from xloom.stablehlo.translate.expansion import expand
from xloom.stablehlo.translate.rules import NotTranslatedError, rule
from xloom.stablehlo.translate.scope import Scope


@rule("chlo.erf")
def _erf(s: Scope, op: Any) -> None:
    s.emit(op, "erf")


@rule("chlo.square")
def _square(s: Scope, op: Any) -> None:
    (x,) = s.values(op.operands)
    if x.shape.dtype.is_complex:
        raise NotTranslatedError("the square of a complex number")
    s.emit(op, "multiply", operands=[x, x])


@rule("chlo.top_k", attributes="k")
def _top_k(s: Scope, op: Any) -> None:
    s.emit(op, "topk", {"k": op.operation.attributes["k"].value, "largest": True})


_EXPANDED = (
    "chlo.acos", "chlo.acosh", "chlo.asin", "chlo.asinh", "chlo.atan", "chlo.atanh", "chlo.bessel_i1e", "chlo.cosh",
    "chlo.digamma", "chlo.erf_inv", "chlo.erfc", "chlo.is_inf", "chlo.is_neg_inf", "chlo.is_pos_inf", "chlo.lgamma",
    "chlo.next_after", "chlo.polygamma", "chlo.sinh", "chlo.tan", "chlo.zeta",
)  # fmt: skip
rule(*_EXPANDED)(expand)
