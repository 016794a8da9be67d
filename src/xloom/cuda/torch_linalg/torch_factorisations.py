"""PyTorch's linear algebra as calls of LAPACK's routines that have kernels here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from xloom.calls.torch_routines import PREFIX
from xloom.cuda.torch_linalg import factors, systems
from xloom.cuda.torch_linalg.expansion import Expansion, Values
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, register
from xloom.passes.replacement import replace_each
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


@register
@dataclass(frozen=True)
class TorchFactorisations(Pass):
    """Makes calls of LAPACK of `xloom.torch.*`, of those which kernels of ours do as torch has them."""

    name = "torch-factorisations"

    def run(self, module: Module) -> bool:
        """See the class."""
        return replace_each(module, rule)


@rule("custom-call")
def _factorisation(call: Instruction, rw: Rewriter) -> Instruction | None:
    target = call["custom_call_target"]
    expand = _EXPANSIONS.get(target.removeprefix(PREFIX)) if target.startswith(PREFIX) else None
    if expand is None or not all(operand.shape.size for operand in call.operands):
        return None
    found = expand(Expansion(call, rw), *call.operands, **json.loads(call.backend_config))
    if found is None:
        return None
    if not call.shape.is_tuple:
        (value,) = found
        return value
    return rw.make("tuple", call.shape, found)


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
