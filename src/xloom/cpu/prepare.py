"""What is done to a module before it is planned: what every backend does, what torch makes of small LU and QR factors
by kernels, large linear algebra by blocks, convolutions of spread inputs as pads, dots of vectors that are computed as
sums, and products and scatters fused with their operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from xloom.calls.sanitizer import active
from xloom.codegen import preparation
from xloom.codegen.fusion.dot_operand_fusion import DotOperandFusion
from xloom.codegen.fusion.epilogue_fusion import EpilogueFusion
from xloom.codegen.fusion.scatter_operand_fusion import ScatterOperandFusion
from xloom.cpu.kernels.call_rules import MOST_PIVOTS, TALLEST
from xloom.hlo.module import Module
from xloom.llvm.target import Target, process_target
from xloom.passes.dead_initial_value import DeadInitialValue
from xloom.passes.dilated_input_phases import DilatedInputPhases
from xloom.passes.dilated_input_simplification import DilatedInputSimplification
from xloom.passes.dot_strength_reduction import DotStrengthReduction
from xloom.passes.hooks import Hook
from xloom.passes.linear_algebra_blocking import LinearAlgebraBlocking
from xloom.passes.lookup_tables import LookupTables
from xloom.passes.narrow_operands import NarrowOperands
from xloom.passes.product_tiling import ProductTiling
from xloom.passes.torch_linalg import TorchFactorisations

_FIRST = (TorchFactorisations(MOST_PIVOTS, TALLEST),)
_OWN = (
    LinearAlgebraBlocking(),
    DilatedInputSimplification(),
    DotStrengthReduction(),
    DotOperandFusion(),
    ScatterOperandFusion(),
    DeadInitialValue(),
    LookupTables(),
)


def prepared(module: Module, hooks: Sequence[Hook] = (), target: Target | None = None) -> Module:
    """A copy of `module` in the form that the planner takes, as `codegen.preparation` says.

    It is what is best for the `target`, which is the process's if it is None, and runs on all.
    """
    first = _FIRST if active() is None else ()  # which watches calls as they are
    has_tiles = (target or process_target()).has_tiles
    products = (NarrowOperands(),) if has_tiles else ()
    before = (*products, DilatedInputPhases(), ProductTiling()) if has_tiles else ()
    epilogues = (EpilogueFusion(),) if has_tiles else ()
    return preparation.prepared(module, hooks, (*products, *_OWN, *epilogues), first, before)
