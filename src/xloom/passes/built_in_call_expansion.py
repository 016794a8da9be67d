"""Custom calls that XLA itself gives a meaning, as plain HLO."""

from __future__ import annotations

from dataclasses import dataclass

from xloom.calls import registry
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.interpreter.custom_call import IDENTITIES
from xloom.passes.base import Pass, instructions_of, pin_roots, register
from xloom.passes.dce import remove_keeping_order


@register
@dataclass(frozen=True)
class BuiltInCallExpansion(Pass):
    """Custom calls that XLA gives a meaning become plain HLO, except where code is registered under the same name."""

    name = "built-in-call-expansion"

    def run(self, module: Module) -> bool:
        """See the class."""
        pin_roots(module)
        calls = [call for c in module.computations for call in instructions_of(c, ("custom-call",))]
        return any([_expand(call) for call in calls])


def _expand(call: Instruction) -> bool:
    target = call["custom_call_target"]
    make = _top_k if target == "TopK" else _identity if target in IDENTITIES else None
    if make is None or registry.is_registered(target):
        return False
    new = make(call)
    if new is not None:
        call.replace_all_uses_with(new)
        remove_keeping_order(call)
    return new is not None


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
