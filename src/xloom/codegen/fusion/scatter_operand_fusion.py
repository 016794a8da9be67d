"""Scatters and what their indices and updates are computed of: one instruction, so that these are never in memory.

A scatter goes through its updates one by one and waits for memory meanwhile: what little arithmetic there is, and
gathers above all, is done in that time. What takes longer is left to loops, which do it in vectors, on all threads.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from xloom.codegen.fusion.custom_fusion import fuse
from xloom.codegen.fusion.fusion_group import is_fusible
from xloom.codegen.ops import OP_ROWS, Trait, having
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, register

_MOST = 8
"""Additions that an element of indices or updates costs."""
_GROWTH = 1.5
"""How much more it may read of memory than the operand itself has."""
_FREE = having(Trait.FREE)
_FORWARDING = having(Trait.FORWARDS)
_NUMBERS = frozenset(["constant", "iota"])
"""What is as well made again wherever it is read."""
_PARTS = frozenset(["broadcast", "gather", "slice", "reverse"])


@register
class ScatterOperandFusion(Pass):
    """Scatters become fusions with their operands, of kind kCustom; the operand that is changed stays the first one."""

    name = "scatter-operand-fusion"
    opcodes = ("scatter",)

    def run(self, module: Module) -> bool:
        """Fuses operands into scatters; True when the module changed."""
        changed = False
        fused = {i["calls"] for i in module.instructions if i.opcode == "fusion"}
        scatters = [i for i in module.instructions if i.opcode == "scatter" and i.parent not in fused]
        for scatter in [i for i in scatters if i.shape.is_array]:
            _, indices, updates = scatter.operands
            inside = {*_inside(scatter, indices), *_inside(scatter, updates)} - {scatter.operands[0]}
            if any(i.opcode not in _FORWARDING and i.opcode != "constant" for i in inside):
                fuse(module, scatter, inside, "scatter")
                changed = True
        return changed


def _inside(scatter: Instruction, root: Instruction) -> Collection[Instruction]:
    """What an operand is computed of, as far as it is as good to do so for each update."""
    at = scatter["index_vector_dim"]
    updates = math.prod(n for d, n in enumerate(scatter.operands[1].shape.dims) if d != at)
    found: dict[Instruction, None] = {}
    cost = 0
    stack = [root]
    while stack:
        i = stack.pop()
        if i in found or not _is_inside(i, scatter, updates, found):
            continue
        if i.opcode == "concatenate" and (i is not scatter.operands[1] or i["dimensions"] != (at,)):
            continue
        cost += 0 if i.opcode in _FREE or i.opcode in _NUMBERS else OP_ROWS[i.opcode].cost
        if cost > _MOST:
            break
        found[i] = None
        stack.extend(o for o in i.operands if _is_own(i, scatter, found) or _is_made_again(o))
    return found if _bytes_read(found) <= _GROWTH * root.shape.nbytes else ()


def _bytes_read(found: Collection[Instruction]) -> int:
    """Of the arrays that instructions are computed of; what a gather reads is elsewhere for each update anyway."""
    leaves = {o for i in found for o in (i.operands[1:] if i.opcode == "gather" else i.operands) if o not in found}
    return sum(leaf.shape.nbytes for leaf in leaves)


def _is_inside(i: Instruction, scatter: Instruction, updates: int, found: Collection[Instruction]) -> bool:
    if not is_fusible(i) or i.has_control_dependencies:
        return False
    if _is_made_again(i):
        return True
    known = i.op.elementwise or i.opcode in _PARTS or i.opcode in _FORWARDING or i.opcode == "concatenate"
    often = i.shape.size < updates and i.opcode not in _FORWARDING
    return known and not often and _is_own(i, scatter, found)


def _is_made_again(i: Instruction) -> bool:
    """True of what reads no array, or a smaller one, so that no other reader gains by finding it in memory."""
    while i.opcode in _FORWARDING:
        i = i.operands[0]
    return i.opcode in _NUMBERS or (i.opcode == "broadcast" and i.shape.size > i.operands[0].shape.size)


def _is_own(i: Instruction, scatter: Instruction, found: Collection[Instruction]) -> bool:
    """True when nothing else reads it."""
    return all(user in found or user is scatter for user in i.users)
