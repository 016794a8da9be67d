"""Products of matrices and what is done to their operands: one instruction, so that the operands are never whole.

A large operand that meets few rows of the other one takes longer to be converted, scaled or cut out than to be
multiplied. So it is computed a block at a time, just before the block is multiplied. What is done to the result is
left to loops: that they read it out of a cache costs little next to what they compute, and calls for pieces of it cost
as much. Only its conversion is part of the product, whose sums are wider than narrow results anyway.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from xloom.codegen.fusion.custom_fusion import fuse
from xloom.codegen.fusion.fusion_group import is_fusible
from xloom.hlo.dtype import bf16, f16, f32
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, register

_LEAST = 1 << 18
"""Elements of an operand that does not stay in the caches from when it is made until it is multiplied."""
_FEW = 256
"""Rows of the other operand: with more of them, what is done to each element hardly counts."""
_MOST = 40
"""Instructions in an operand's expression."""
_VIEWS = frozenset(["broadcast", "constant", "convert", "reshape"])
"""Operators that are as well done again wherever their result is read."""
_WEIGHTS = frozenset(["parameter", "get-tuple-element", "constant"])
"""Where large arrays come from that are in memory anyway. Loops that make others can go on with their elements."""
_PARTS = frozenset(["dynamic-slice", "slice", "copy"])


@register
class DotOperandFusion(Pass):
    """Dots that have such an operand become fusions of both, of kind kCustom; a narrow result is the dot's own."""

    name = "dot-operand-fusion"
    opcodes = ("dot",)

    def run(self, module: Module) -> bool:
        """Fuses operands into products; True when the module changed."""
        changed = False
        fused = {i["calls"] for i in module.instructions if i.opcode == "fusion"}
        for computation in [c for c in module.computations if c not in fused]:
            for dot in [i for i in computation if i.opcode == "dot"]:
                narrowed = _narrowed(dot)
                sides = sorted((1, 0), key=lambda side, dot=narrowed: -dot.operands[side].shape.size)
                found = (_inside(narrowed, side) for side in sides if _is_worth_it(narrowed, side))
                inside = next(filter(None, found), None)
                if inside:
                    fuse(module, narrowed, inside, "product")
                changed |= narrowed is not dot or bool(inside)
        return changed


def _narrowed(dot: Instruction) -> Instruction:
    """The dot with the result that it is converted to, if nothing else is done with it before it is stored."""
    users = list(dot.users)
    if len(users) != 1 or dot.shape.dtype is not f32 or users[0].shape.dtype not in (bf16, f16):
        return dot
    (convert,) = users
    waits = convert.has_control_dependencies or dot.control_successors
    if convert.opcode != "convert" or waits or any(is_fusible(user) for user in convert.users):
        return dot
    assert dot.parent is not None
    narrow = dot.clone(shape=convert.shape)
    parent = dot.parent
    parent.replace(convert, narrow)
    dot.transfer_control_dependencies_to(narrow)
    parent.remove(dot)
    return narrow


def _is_worth_it(dot: Instruction, side: int) -> bool:
    """True when the operand is large, and meets few rows of the other one."""
    matrix, other = dot.operands[side].shape, dot.operands[1 - side].shape
    if matrix.size < _LEAST or dot["algorithm"] != "unset" or dot.operands[0] is dot.operands[1]:
        return False
    name = ("rhs", "lhs")[side]
    known = (*dot[f"{name}_batch_dims"], *dot[f"{name}_contracting_dims"])
    return prod(n for d, n in enumerate(other.dims) if d not in known) <= _FEW


def _inside(dot: Instruction, side: int) -> Collection[Instruction]:
    """What the operand is computed of, up to what lies in memory anyway."""
    root = dot.operands[side]
    found: dict[Instruction, None] = {}
    stack = [root]
    while stack:
        i = stack.pop()
        if i in found or not _is_inside(i, root, dot, found):
            continue
        found[i] = None
        stack.extend(i.operands)
    if len(found) > _MOST or all(i.opcode in ("broadcast", "constant", "reshape") for i in found):
        return ()
    read = [o for i in found for o in i.operands if o not in found and o.shape.size >= root.shape.size]
    return found if all(o.opcode in _WEIGHTS for o in read) else ()


def _is_inside(i: Instruction, root: Instruction, dot: Instruction, found: dict[Instruction, None]) -> bool:
    if not is_fusible(i) or i.has_control_dependencies:
        return False
    if i.opcode in _VIEWS:
        return i.shape.size < root.shape.size or _is_own(i, dot, found)
    known = i.op.elementwise or i.opcode in _PARTS
    return known and i.shape.size >= root.shape.size and _is_own(i, dot, found)


def _is_own(i: Instruction, dot: Instruction, found: dict[Instruction, None]) -> bool:
    """True when nothing else reads it."""
    return all(user in found or user is dot for user in i.users)
