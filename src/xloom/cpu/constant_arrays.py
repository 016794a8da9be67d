"""The arrays of a constant, whose digits may be many."""

from __future__ import annotations

import numpy as np

from xloom.errors import OutOfMemoryError
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal


def constant_arrays(instruction: Instruction) -> list[np.ndarray]:
    """One of each leaf. Raises OutOfMemoryError, with the place in the program."""
    try:
        return _arrays(instruction.literal)
    except OutOfMemoryError as error:
        error.where = f"{instruction.name} {instruction.metadata.location}".strip()
        raise


def _arrays(literal: Literal) -> list[np.ndarray]:
    if literal.shape.is_tuple:
        return [a for element in literal.elements for a in _arrays(element)]
    return [literal.value] if literal.shape.is_array else []
