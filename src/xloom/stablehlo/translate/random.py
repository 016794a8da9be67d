"""Random bits."""

from __future__ import annotations

from typing import Any

from xloom.stablehlo.translate.rules import rule
from xloom.stablehlo.translate.scope import Scope


@rule("stablehlo.rng_bit_generator", attributes="rng_algorithm")
def _rng_bit_generator(s: Scope, op: Any) -> None:
    algorithm = s.program.dialect.RngAlgorithmAttr(op.operation.attributes["rng_algorithm"]).value
    s.emit(op, "rng-bit-generator", {"algorithm": f"rng_{algorithm.lower()}"})
