"""Results of custom calls that start as NaNs which no arithmetic gives, so that what is not written shows."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape

POISONED = "xloom.poisoned"
"""The frontend attribute of calls whose results are to start so."""
POISON = 0xFF
"""The value of each of their bytes: a NaN with all bits set, where those of arithmetic have few."""


def is_poisoned(call: Instruction) -> bool:
    """Whether native code gives a call such memory."""
    return POISONED in call.frontend_attributes


def shows_poison(shape: Shape) -> bool:
    """True for arrays whose elements are no poison by chance: of floats with at least 16 bits, and complex ones."""
    return shape.is_array and (shape.dtype.is_complex or (shape.dtype.is_float and shape.dtype.bits >= 16))


def used_leaves(call: Instruction) -> list[tuple[int, ...]]:
    """The leaves of a call's result that the program uses, so not those that are scratch memory, by tuple index.

    Those that start as an operand are left out.
    """
    aliased = {tuple(alias.output_index) for alias in call.attrs.get("output_to_operand_aliasing", ())}
    taken = None
    if not call.is_root and all(user.opcode == "get-tuple-element" for user in call.users):
        taken = {user["index"] for user in call.users}
    return [
        index
        for index, shape in call.shape.leaves()
        if shows_poison(shape) and index not in aliased and (taken is None or index[0] in taken)
    ]
