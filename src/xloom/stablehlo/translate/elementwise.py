"""Elementwise operations."""

from __future__ import annotations

from typing import Any

from xloom.stablehlo.translate.expansion import expand
from xloom.stablehlo.translate.rules import NotTranslatedError, rule
from xloom.stablehlo.translate.scope import Scope

_SAME = (
    "abs", "add", "and", "atan2", "cbrt", "ceil", "clamp", "complex", "cosine", "count-leading-zeros", "divide",
    "exponential", "exponential-minus-one", "floor", "imag", "is-finite", "log", "log-plus-one", "logistic", "maximum",
    "minimum", "multiply", "negate", "not", "or", "popcnt", "power", "real", "remainder", "round-nearest-afz",
    "round-nearest-even", "rsqrt", "select", "shift-left", "shift-right-arithmetic", "shift-right-logical", "sign",
    "sine", "sqrt", "subtract", "tan", "tanh", "xor",
)  # fmt: skip
"""Those that HLO calls by the same name."""


_EXPANDED_OF_COMPLEX = frozenset((
    "abs", "cosine", "divide", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic",
    "power", "rsqrt", "sign", "sine", "sqrt", "tan", "tanh",
))  # fmt: skip
"""Those that jaxlib computes of complex numbers by others: the steps decide which infinities and NaNs there are."""


def _register(opcode: str) -> None:
    @rule(f"stablehlo.{opcode.replace('-', '_')}", attributes="result_accuracy")
    def translate(s: Scope, op: Any) -> None:
        attributes = op.operation.attributes
        if "result_accuracy" in attributes and "DEFAULT" not in str(attributes["result_accuracy"]):
            raise NotTranslatedError("result_accuracy")
        if opcode in _EXPANDED_OF_COMPLEX and s.shape(op.operands[0]).dtype.is_complex:
            expand(s, op)
        else:
            s.emit(op, opcode)


for _opcode in _SAME:
    _register(_opcode)


@rule("stablehlo.compare", attributes="comparison_direction compare_type")
def _compare(s: Scope, op: Any) -> None:
    attributes = op.operation.attributes
    dialect = s.program.dialect
    attrs = {"direction": dialect.ComparisonDirectionAttr(attributes["comparison_direction"]).value}
    if "compare_type" in attributes and dialect.ComparisonTypeAttr(attributes["compare_type"]).value == "TOTALORDER":
        attrs["type"] = "TOTALORDER"
    s.emit(op, "compare", attrs)


@rule("stablehlo.convert")
def _convert(s: Scope, op: Any) -> None:
    (x,) = s.values(op.operands)
    (result,) = op.results
    if s.shape(result) == x.shape:
        s.define(result, x)
    else:
        s.emit(op, "convert", operands=[x])


@rule("stablehlo.reduce_precision", attributes="exponent_bits mantissa_bits")
def _reduce_precision(s: Scope, op: Any) -> None:
    attributes = op.operation.attributes
    s.emit(op, "reduce-precision", {name: attributes[name].value for name in ("exponent_bits", "mantissa_bits")})
