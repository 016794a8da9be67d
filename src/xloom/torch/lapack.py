"""Factorisations as custom calls of the LAPACK that torch brings: `xloom.torch.<operator>`, options as JSON.

Loops of small steps that depend on each other, such as pivoting, gain nothing from being compiled with what is round
them; XLA calls LAPACK for them as well.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from math import nan
from typing import Any

import torch

from xloom.calls import custom_call, lookup
from xloom.calls.registry import add
from xloom.calls.torch_routines import PREFIX
from xloom.torch.arrays import as_tensor

OPERATORS = (
    "_linalg_det",
    "_linalg_eigh",
    "_linalg_eigvals",
    "_linalg_slogdet",
    "_linalg_solve_ex",
    "_linalg_svd",
    "geqrf",
    "linalg_eig",
    "linalg_householder_product",
    "linalg_inv_ex",
    "linalg_ldl_factor_ex",
    "linalg_ldl_solve",
    "linalg_lstsq",
    "linalg_lu",
    "linalg_lu_factor_ex",
    "linalg_lu_solve",
    "linalg_qr",
    "lu_unpack",
    "ormqr",
)
"""What is called: operators of ATen whose tensors are their first arguments."""


def _factors_its_matrix() -> bool:
    matrix = torch.tensor([[1.0, 2.0], [0.0, 1.0]], device="cpu")  # its factors are itself
    return torch.equal(torch.ops.aten._linalg_solve_ex(matrix, matrix)[1], matrix)


SOLVE_FACTORS_ITS_MATRIX = _factors_its_matrix()
"""Whether torch's `solve` factors real matrices that lie in rows themselves, not their transposes: versions differ."""


@cache
def _options(opaque: bytes) -> tuple[bool, dict[str, Any]]:
    """Whether the first matrix is to lie in columns, and what the operator is called with besides tensors."""
    options = json.loads(opaque)
    return options.pop("columns", False), options


def target_of(operator: str) -> str:
    """The name of an operator's custom call."""
    return PREFIX + operator


def _register(operator: str) -> None:
    overload = getattr(torch.ops.aten, operator).default

    @custom_call(target_of(operator))
    def call(out: Any, *inputs: Any, opaque: bytes) -> None:
        columns, options = _options(opaque)
        with torch.no_grad():
            tensors = [*map(as_tensor, inputs)]
            if columns:
                tensors[0] = tensors[0].mT.contiguous().mT
            results = overload(*tensors, **options)
            pairs = [(out, results)] if isinstance(results, torch.Tensor) else zip(out, results, strict=True)
            for place, result in pairs:
                target = as_tensor(place)
                if result.numel() or not target.numel():
                    target.copy_(result)
                else:  # the residuals of a matrix that has not full rank, which only its values tell
                    target.fill_(nan)

    add(replace(lookup(target_of(operator)), serves_devices=True))


for _operator in OPERATORS:
    _register(_operator)
