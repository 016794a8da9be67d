"""How far apart two addresses of a loop body are, where that is a number whatever the iteration."""

from __future__ import annotations

from collections import Counter
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as kinds

from xloom.llvm.vectorizer.widening import bytes_of


def distance(first: Any, second: Any) -> int | None:
    """Bytes from one address to another; None where that is not known."""
    terms: Counter[int] = Counter()
    nbytes = _add_address(terms, second, 1) + _add_address(terms, first, -1)
    return None if any(terms.values()) else nbytes


def _add_address(terms: Counter[int], pointer: Any, factor: int) -> int:
    """Adds an address to a sum: a number, which is the result, and values by identity with their factors."""
    nbytes = 0
    while isinstance(pointer, kinds.GEPInstr) and len(pointer.operands) == 2:
        nbytes += _add(terms, pointer.operands[1], factor * bytes_of(pointer.source_etype))
        pointer = pointer.operands[0]
    terms[id(pointer)] += factor
    return nbytes


def _add(terms: Counter[int], value: Any, factor: int) -> int:
    """The same of an index (i64), in bytes."""
    if isinstance(value, ir.Constant) and isinstance(value.constant, int):
        return value.constant * factor
    name = getattr(value, "opname", "")
    if name in ("add", "sub"):
        first, second = value.operands
        return _add(terms, first, factor) + _add(terms, second, factor if name == "add" else -factor)
    if name in ("mul", "shl"):
        for other, number in (value.operands, reversed(value.operands)) if name == "mul" else (value.operands,):
            if isinstance(number, ir.Constant) and isinstance(number.constant, int):
                return _add(terms, other, factor * (number.constant if name == "mul" else 1 << number.constant))
    terms[id(value)] += factor
    return 0
