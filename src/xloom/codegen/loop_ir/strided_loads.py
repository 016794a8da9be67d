"""What a loop body reads across its rows, and so is better transposed tile by tile."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.nest import LoopBody
from xloom.codegen.loop_ir.nodes import Load, has_changing_numbers, walk
from xloom.codegen.thresholds import TRANSPOSED_SIDE


def strided_loads(stage: LoopBody, loops: Sequence[Var]) -> tuple[Var, list[Load]] | None:
    """The loop along which some loads are contiguous while the innermost loop takes them far apart; and the loads."""
    if len(loops) < 2 or loops[-1].size < TRANSPOSED_SIDE:
        return None
    inner = loops[-1]
    found: dict[Var, list[Load]] = {}
    for node in walk([s.node for s in stage.stores], guarded=False):  # a tile is loaded whole
        if isinstance(node, Load) and abs(node.address.factor(inner)) > 1 and node.dtype.bytes <= 8:
            for var in loops[:-1]:
                if abs(node.address.factor(var)) != 1 or not _is_vector(var, node):
                    continue
                if not has_changing_numbers(node.address, (var, inner)):  # a tile has one base
                    found.setdefault(var, []).append(node)
    if not found:
        return None
    var = max(found, key=lambda v: len(found[v]))
    return var, found[var]


def _is_vector(var: Var, node: Load) -> bool:
    """True where a loop has enough of the elements that it loads one after another."""
    return var.size >= TRANSPOSED_SIDE or (var.size == TRANSPOSED_SIDE - 1 and node.dtype.bytes > 1)
