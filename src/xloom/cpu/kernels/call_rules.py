"""Custom calls that kernels of ours do: of LAPACK's routines, and of one of XLA's for GPUs, by their names in JAX."""

from __future__ import annotations

import re
from importlib import import_module

from xloom.calls.buffers import operand_shapes
from xloom.calls.jaxlib_handlers import is_replaced
from xloom.calls.registry import ABIS, is_registered
from xloom.calls.sanitizer import active
from xloom.calls.typed_ffi.attributes import parse_attributes
from xloom.codegen.buffer_values import leaf_shapes
from xloom.cpu.kernel_modules.kernel import Rule
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.passes.torch_linalg.torch_factorisations import are_few_pivots, is_tall

MOST_PIVOTS = 512
"""Up to which a kernel factors faster than LAPACK; of complex numbers, half of them."""
TALLEST = 256
"""Rows for each column up to which so does one that makes reflections; what is longer is read from far for each."""
_LAPACK = re.compile("lapack_[sdcz]([a-z]+)_ffi")
_PERMUTATION = "cu_lu_pivots_to_permutation"


def call_rule(call: Instruction) -> Rule | None:
    """The rule of a custom call; None where it is none of these, or another's code is to be called."""
    target = call["custom_call_target"]
    if call["api_version"] != ABIS["typed-ffi"] or active() is not None:
        return None
    if target == _PERMUTATION and not is_registered(target):
        from xloom.cpu.kernels.linalg.pivots import permutation

        return permutation
    found = _LAPACK.fullmatch(target)
    rule = _RULES.get(found[1]) if found else None
    counts = len(operand_shapes(call)), len(leaf_shapes(call.shape))  # of others, the library says what is wrong
    if rule is None or counts != rule[1:] or not _has_kernel(call) or is_replaced(target):
        return None
    module, _, function = rule[0].partition(":")
    return getattr(import_module(f"xloom.cpu.kernels.linalg.{module}"), function)


_RULES = {
    "geqrf": ("qr:qr", 1, 2),
    "getrf": ("lu:lu", 1, 3),
    "orgqr": ("reflection_products:unitary", 2, 1),
    "ormqr": ("reflection_products:product", 3, 1),
    "ungqr": ("reflection_products:unitary", 2, 1),
    "unmqr": ("reflection_products:product", 3, 1),
}
"""By routines of LAPACK, where the rules are, whose files are not imported before they are needed, and how many
operands and results they have."""


def _has_kernel(call: Instruction) -> bool:
    """Of matrices in rows LAPACK factors the transposes."""
    routine = call["custom_call_target"]
    operands, (first, *_) = operand_shapes(call), leaf_shapes(call.shape)
    if routine.endswith("mqr_ffi") and not parse_attributes(call.backend_config)["left"]:
        return False
    if not routine.endswith("getrf_ffi") and is_tall(operands[0], TALLEST):
        return False
    matrices = [operands[0], first, *operands[2:]]
    factors = min(operands[0].dims[-2:]) if len(operands) == 1 else operands[1].dims[-1]
    return all(map(_is_in_columns, matrices)) and are_few_pivots(factors, first.dtype, MOST_PIVOTS)


def _is_in_columns(matrix: Shape) -> bool:
    *outer, row, column = range(matrix.rank)
    return matrix.major_to_minor == (*outer, column, row)
