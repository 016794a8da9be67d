"""Custom calls that XLA itself gives a meaning, as plain HLO."""

from __future__ import annotations

from xloom.calls import registry
from xloom.errors import LoweringError
from xloom.hlo.asynchronous import is_control_dependency
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.stack_frames import place
from xloom.interpreter.custom_call import IDENTITIES
from xloom.passes.base import Pass, instructions_of, pin_roots, register
from xloom.passes.dce import remove_keeping_order

_AT_ONCE = frozenset(["constant", "parameter"])
"""Opcodes of what is there when a computation begins."""


@register
class BuiltInCallExpansion(Pass):
    """Custom calls that XLA gives a meaning become plain HLO, except where code is registered under the same name."""

    name = "built-in-call-expansion"
    opcodes = ("custom-call",)

    def run(self, module: Module) -> bool:
        """See the class."""
        pin_roots(module)
        calls = [call for c in module.computations for call in instructions_of(c, ("custom-call",))]
        return any([_expand(call) for call in calls])


def _expand(call: Instruction) -> bool:
    target = call["custom_call_target"]
    if is_control_dependency(call) and not registry.is_registered(target):
        before, after = call.operands
        _order(before, after, call)
        return True
    make = _top_k if target == "TopK" else _identity if target in IDENTITIES else None
    if make is None or registry.is_registered(target):
        return False
    new = make(call)
    if new is not None:
        call.replace_all_uses_with(new)
        remove_keeping_order(call)
    return new is not None


# control_dep(x, y) == a control dependency from x to y
def _order(before: Instruction, after: Instruction, call: Instruction) -> None:
    if _waits_for(before, after):
        raise LoweringError(
            f"{before.name} cannot be computed before {after.name}, which it is made of",
            where=place(call),
            hint="order values that do not depend on one another, or the other way",
        )
    if before.opcode not in _AT_ONCE and after.opcode not in _AT_ONCE:
        after.add_control_predecessor(before)
    remove_keeping_order(call)


def _waits_for(i: Instruction, other: Instruction) -> bool:
    """Whether it is computed after another anyway, or is that."""
    seen, stack = {i}, [i]
    while stack:
        current = stack.pop()
        new = {*current.operands, *current.control_predecessors} - seen
        seen |= new
        stack += new
    return other in seen


# Sharding(x) == x on one device
def _identity(call: Instruction) -> Instruction | None:
    operand = call.operands[0]
    if operand.shape == call.shape:
        return operand
    if not call.shape.is_array or (operand.shape.dtype, operand.shape.dims) != (call.shape.dtype, call.shape.dims):
        return None
    return _added(Instruction(call.name, "copy", call.shape, [operand]), call)


# TopK(x) == the k largest of each row, and where they were
def _top_k(call: Instruction) -> Instruction:
    k = call.shape.elements[0].dims[-1]
    return _added(Instruction(call.name, "topk", call.shape, call.operands[:1], {"k": k, "largest": True}), call)


def _added(new: Instruction, call: Instruction) -> Instruction:
    assert call.parent is not None
    new.copy_annotations(call)
    return call.parent.add(new)
