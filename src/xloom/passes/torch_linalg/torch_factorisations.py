"""PyTorch's linear algebra as calls of LAPACK's routines that have kernels."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from xloom.calls.torch_routines import PREFIX
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.passes.base import Pass, register
from xloom.passes.op_expansion import expand_ops
from xloom.passes.rewrite import Rewriter, RuleTable
from xloom.passes.torch_linalg import factors, systems
from xloom.passes.torch_linalg.expansion import LETTERS, Expansion, Values


@register
@dataclass(frozen=True)
class TorchFactorisations(Pass):
    """Makes calls of LAPACK of `xloom.torch.*`, of those which kernels of ours do as torch has them.

    With `most_pivots`, those alone that take LU or QR factors, of so many pivots or reflections at most, or of half of
    them if complex; QR factors of matrices that have at most `tallest` rows for each column, or few columns.
    """

    most_pivots: int = 0
    tallest: int = 0

    name = "torch-factorisations"
    opcodes = ("custom-call",)

    def run(self, module: Module) -> bool:
        """See the class."""
        rules = RuleTable()
        rules("custom-call")(self._factorisation)
        return expand_ops(module, rules)

    def _factorisation(self, call: Instruction, rw: Rewriter) -> Instruction | None:
        target = call["custom_call_target"]
        name = target.removeprefix(PREFIX) if target.startswith(PREFIX) else ""
        if name not in _EXPANSIONS or not all(operand.shape.size for operand in call.operands):
            return None
        if call.operands[0].shape.dtype.name not in LETTERS:  # torch says that it has none either
            return None
        if self.most_pivots and not (name in _BY_PIVOTS and self._has_few_pivots(name, call)):
            return None
        found = _EXPANSIONS[name](Expansion(call, rw), *call.operands, **json.loads(call.backend_config))
        if found is None:
            return None
        if not call.shape.is_tuple:
            (value,) = found
            return value
        return rw.make("tuple", call.shape, found)

    def _has_few_pivots(self, name: str, call: Instruction) -> bool:
        matrix = call.operands[0].shape
        if name in _OF_QR and is_tall(matrix, self.tallest):
            return False
        pivots = call.operands[1].shape.dims[-1] if name in _OF_REFLECTIONS else min(matrix.dims[-2:])
        return are_few_pivots(pivots, matrix.dtype, self.most_pivots)


def are_few_pivots(pivots: int, dtype: DType, most: int) -> bool:
    """Whether they are `most`, or half of them if they are complex, or fewer."""
    return pivots <= (most // 2 if dtype.is_complex else most)


def is_tall(matrix: Shape, tallest: int) -> bool:
    """Whether a matrix has more than `tallest` rows for each column, and more columns than a panel of any kernel."""
    rows, columns = matrix.dims[-2:]
    return rows > tallest * columns and columns > _FEW_COLUMNS


_FEW_COLUMNS = 8
_EXPANSIONS: dict[str, Callable[..., Values | None]] = {
    "_linalg_det": systems.det,
    "_linalg_eigh": factors.eigh,
    "_linalg_slogdet": systems.slogdet,
    "_linalg_solve_ex": systems.solve,
    "_linalg_svd": factors.svd,
    "geqrf": factors.geqrf,
    "linalg_householder_product": factors.householder_product,
    "linalg_inv_ex": systems.inverse,
    "linalg_ldl_factor_ex": factors.ldl_factor,
    "linalg_ldl_solve": systems.ldl_solve,
    "linalg_lstsq": systems.lstsq,
    "linalg_lu": factors.lu,
    "linalg_lu_factor_ex": factors.lu_factor,
    "linalg_lu_solve": systems.lu_solve,
    "linalg_qr": factors.qr,
    "lu_unpack": factors.lu_unpack,
    "ormqr": factors.ormqr,
}
"""By operators of ATen."""
_OF_REFLECTIONS = frozenset(["linalg_householder_product", "ormqr"])
"""Which take QR factors."""
_OF_QR = _OF_REFLECTIONS | {"geqrf", "linalg_qr"}
_BY_PIVOTS = _OF_QR | {
    "_linalg_det",
    "_linalg_slogdet",
    "_linalg_solve_ex",
    "linalg_inv_ex",
    "linalg_lu",
    "linalg_lu_factor_ex",
    "linalg_lu_solve",
    "lu_unpack",
}
