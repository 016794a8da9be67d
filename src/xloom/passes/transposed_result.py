"""Results that a program has transposed, compared with a pattern: dot(b, a) where that has dot(a, b)."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape

_MARK = "xloom.turned"
"""Frontend attribute of a transpose that gives the program's order again."""


# x == transpose(transpose(x))
def turn(value: Instruction, order: Sequence[int]) -> Instruction:
    """`value` with its dimensions in that order, of which its users then get what they had."""
    turned = _transpose(value, value, order)
    back = _transpose(turned, value, [order.index(k) for k in range(len(order))])
    back.shape = value.shape
    back.frontend_attributes = {_MARK: "true"}
    value.replace_all_uses_with(back)
    turned.replace_operand(0, value)
    return turned


def turn_back(turned: Instruction) -> None:
    """Undoes `turn`: users get the value itself, if it is still there."""
    for back in turned.users:
        if _MARK in back.frontend_attributes and _undoes(back, turned):
            back.replace_all_uses_with(turned.operands[0])
            _remove(back)
    if turned.is_dead:
        _remove(turned)


def _undoes(back: Instruction, turned: Instruction) -> bool:
    if turned.opcode != "transpose" or back.opcode != "transpose":
        return False
    both = [turned["dimensions"][k] for k in back["dimensions"]]
    return both == sorted(both) and back.shape == turned.operands[0].shape


def _transpose(operand: Instruction, like: Instruction, order: Sequence[int]) -> Instruction:
    shape = array_shape(operand.shape.dtype, [operand.shape.dims[k] for k in order])
    made = Instruction(f"{like.name}.turned", "transpose", shape, [operand], {"dimensions": tuple(order)})
    made.metadata = like.metadata
    assert like.parent is not None
    return like.parent.add(made)


def _remove(instruction: Instruction) -> None:
    assert instruction.parent is not None
    instruction.parent.remove(instruction)
