"""Custom calls that kernels of ours do: of LAPACK's routines, and of one of XLA's for GPUs, by their names in JAX."""

from __future__ import annotations

import re

from xloom.calls.buffers import operand_shapes
from xloom.calls.jaxlib_handlers import is_replaced
from xloom.calls.registry import ABIS, is_registered
from xloom.calls.sanitizer import active
from xloom.cpu.kernel_modules.kernel import Rule
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.passes.torch_linalg.torch_factorisations import has_few_pivots

MOST_PIVOTS = 512
"""Up to which a kernel factors faster than LAPACK; of complex numbers, half of them."""
_LU = re.compile("lapack_[sdcz]getrf_ffi")
_PERMUTATION = "cu_lu_pivots_to_permutation"


def call_rule(call: Instruction) -> Rule | None:
    """The rule of a custom call; None where it is none of these, or another's code is to be called."""
    target = call["custom_call_target"]
    if call["api_version"] != ABIS["typed-ffi"] or active() is not None:
        return None
    if target == _PERMUTATION and not is_registered(target):
        from xloom.cpu.kernels.linalg.pivots import permutation

        return permutation
    if _LU.fullmatch(target) and _has_kernel(operand_shapes(call)[0], call) and not is_replaced(target):
        from xloom.cpu.kernels.linalg.lu import lu

        return lu
    return None


def _has_kernel(matrix: Shape, call: Instruction) -> bool:
    """Of matrices in rows LAPACK factors the transposes."""
    *outer, row, column = range(matrix.rank)
    in_columns = (*outer, column, row)
    is_factored = matrix.major_to_minor == call.shape.elements[0].major_to_minor == in_columns
    return is_factored and has_few_pivots(matrix, MOST_PIVOTS)
