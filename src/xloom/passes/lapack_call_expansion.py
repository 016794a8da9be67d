"""Calls of LAPACK as operators, whose kernels are faster and need no copies in another layout."""

from __future__ import annotations

import re
from typing import Any

from xloom.calls.jaxlib_handlers import is_replaced
from xloom.calls.registry import ABIS
from xloom.calls.sanitizer import active
from xloom.calls.typed_ffi.attributes import parse_attributes
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, instructions_of, pin_roots, register
from xloom.passes.dce import remove_keeping_order
from xloom.passes.effects import Effects

_SOLVE = re.compile("lapack_[sdcz]trsm_ffi")
_TRANSPOSE = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}
_MANY = 512
"""LAPACK solves systems of more equations faster where there are as many right sides."""


@register
class LapackCallExpansion(Pass):
    """Calls of LAPACK's trsm become triangular-solve, whose kernel needs no copies in another layout.

    Not where other code is registered under the routine's name, or the sanitizer watches calls.
    """

    name = "lapack-call-expansion"
    opcodes = ("custom-call",)

    def run(self, module: Module) -> bool:
        """See the class."""
        if active() is not None:
            return False
        pin_roots(module)
        effects, changed = Effects(), False
        for computation in module.computations:
            for call in instructions_of(computation, ("custom-call",)):
                if _is_solve(call) and not effects.of(call) and not is_replaced(call["custom_call_target"]):
                    call.replace_all_uses_with(_solve(call))
                    remove_keeping_order(call)
                    changed = True
        return changed


def _is_solve(call: Instruction) -> bool:
    return (
        _SOLVE.fullmatch(call["custom_call_target"]) is not None
        and call["api_version"] == ABIS["typed-ffi"]
        and len(call.operands) == 2
        and min(call.operands[1].shape.dims[-2:]) <= _MANY
    )


def solve_attributes(call: Instruction) -> dict[str, Any]:
    """Those of the triangular-solve that a call of trsm is."""
    given: dict[str, Any] = parse_attributes(call.backend_config)
    side, uplo, transpose, diagonal = (chr(int(given[k])) for k in ("side", "uplo", "trans_x", "diag"))
    return {
        "left_side": side == "L",
        "lower": uplo == "L",
        "transpose_a": _TRANSPOSE[transpose],
        "unit_diagonal": diagonal == "U",
    }


# trsm(a, b) == triangular-solve(a, b)
def _solve(call: Instruction) -> Instruction:
    new = Instruction(call.name, "triangular-solve", call.shape, call.operands, solve_attributes(call))
    new.metadata = call.metadata
    assert call.parent is not None
    return call.parent.add(new)
