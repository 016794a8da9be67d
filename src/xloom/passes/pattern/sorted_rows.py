"""The first elements of sorted rows, which are what topk gives."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.interpreter import evaluate
from xloom.passes.pattern.constraint import function_key
from xloom.passes.pattern.views import core, views_of

_COMPARES = frozenset({"parameter", "compare", "and", "or", "not"})
_known: dict[bytes, bool] = {}
"""Which comparators are descending, by what they do."""


@dataclass(frozen=True)
class Top:
    """The k largest of each row, or where in the row they are."""

    sort: Instruction
    k: int
    index: int
    """Which of the two."""
    inside: tuple[Instruction, ...]
    """All that computes it from the sort's first operand."""


# slice(sort(x, iota, x > y), [:k]) == topk(x, k)
def top_of(program: Instruction) -> Top | None:
    """What a slice of sorted rows is; None for other slices, and others that are sorted."""
    part = program.operands[0]
    if part.opcode != "get-tuple-element" or part.operands[0].opcode != "sort":
        return None
    sort, last = part.operands[0], program.shape.rank - 1
    rows = [(part.start, part.stride) for part in program["slice"]]
    of_all = program.shape.dims[:last] == part.shape.dims[:last] and set(rows) == {(0, 1)}
    if not of_all or len(sort.operands) != 2 or sort["dimensions"] != (last,):
        return None
    places = core(sort.operands[1])
    if places.opcode != "iota" or not _counts(sort.operands[1], places["iota_dimension"], last):
        return None
    if not _is_descending(sort["to_apply"]):
        return None
    inside = (program, part, sort, *views_of(sort.operands[1]), places)
    return Top(sort, program.shape.dims[last], part["index"], inside)


def _counts(value: Instruction, dimension: int, last: int) -> bool:
    """True when `value` counts along its last dimension: an iota, or a broadcast of one."""
    for view in views_of(value):
        if view.opcode != "broadcast" or last not in view["dimensions"]:
            return False
        last = view["dimensions"].index(last)
    return dimension == last


def _is_descending(comparator: Computation) -> bool:
    """True when it puts the greater of two numbers first, and of equal ones none or the first; NaNs as it likes."""
    if len(comparator.parameters) != 4 or not {i.opcode for i in comparator} <= _COMPARES:
        return False
    key = function_key(comparator, shapes=True)
    if key not in _known:
        _known[key] = _puts_greater_first(comparator)
    return _known[key]


# what only compares is known by what it says of less, equal and greater
def _puts_greater_first(comparator: Computation) -> bool:
    module = Module("comparator")
    module.add(comparator.clone("", module), entry=True)
    dtypes = [p.shape.dtype for p in comparator.parameters]
    numbers = (-np.inf, -1, 0, 1, np.inf) if dtypes[0].is_float else (0, 1, 2)
    for (a, b), (i, j) in product(product(numbers, numbers), ((0, 1), (1, 0))):
        given = [np.asarray(v, dtype.numpy) for v, dtype in zip((a, b, i, j), dtypes, strict=True)]
        first = bool(evaluate(module, *given))
        if first != (a > b) and (a != b or first != (i < j)):
            return False
    return True
