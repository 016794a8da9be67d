"""What a pattern asks of constants and attributes: by default equality, and otherwise what its annotations say.

Frontend attributes of a pattern's instruction are constraints: `value="any"` on a constant, `value="count(sum)"` for
the number of elements that the reduction `sum` combines, `value="1/count(sum)"` for its reciprocal,
`value="count(sum)-1"` for one less, and, on any instruction, `NAME="any"` or `NAME="this|that"` for an attribute NAME.
On a parameter, `rank="exact"` says that each of its dimensions stands for one of the program's, or for one of size 1;
`rank="broadcast"` that it may be without dimensions along which the program repeats its elements.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from xloom.errors import PassError
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.passes.match import splat

_COUNT = re.compile(r"(1/)?count\(%?([\w.\-]+)\)(-1)?")
_HINT = 'write value="any", value="count(REDUCTION)", value="1/count(REDUCTION)" or value="count(REDUCTION)-1"'
_NOT_MEANING = frozenset({"origin", "statistics"})


def constant_differs(pattern: Instruction, program: Instruction, count: Callable[[str], int | None]) -> str:
    """Why the constant `program` is not what the constant `pattern` asks for, or an empty string.

    `count` gives the number of elements that a reduction of the pattern combines, None if that is not known yet.
    """
    if stands_for_any(pattern):
        return ""
    wanted = pattern.frontend_attributes.get("value", "")
    if program.literal.elided:
        return f"the value of {program.name} is not in the text"
    found = splat(program)
    if wanted:
        number = count(counted(pattern))
        if number is None:
            return ""
        expected: Any = 1 / number if wanted.startswith("1/") and number else number
        expected -= wanted.endswith("-1")
        same = found is not None and _same_number(float(expected), found, program)
        return "" if same else f"{program.name} is {_show(found)}, not {wanted} = {expected:g}"
    if pattern.shape.is_array and pattern.shape.rank == 0:
        expected = splat(pattern)
        if found is not None and _same_number(expected, found, program, pattern):
            return ""
        return f"{program.name} is {_show(found)}, not {_show(expected)}"
    if pattern.shape.to_text(False) != program.shape.to_text(False) or not pattern.literal.identical(program.literal):
        return f"{program.name} has other elements than {pattern.name}"
    return ""


def stands_for_any(pattern: Instruction) -> bool:
    """True for a constant of a pattern that stands for any."""
    return pattern.frontend_attributes.get("value") == "any"


def counted(pattern: Instruction) -> str:
    """The reduction that the value of a pattern's constant depends on, or an empty string.

    Raises PassError when the constraint is malformed, or the pattern has no such reduction.
    """
    wanted = pattern.frontend_attributes.get("value", "any")
    if wanted == "any":
        return ""
    parsed = _COUNT.fullmatch(wanted)
    if parsed is None:
        raise PassError(f"the constraint value={wanted!r} means nothing", where=pattern.name, hint=_HINT)
    assert pattern.parent is not None
    if not any(i.name == parsed[2] and i.opcode == "reduce" for i in pattern.parent):
        raise PassError(f"the pattern has no reduction {parsed[2]!r} to count", where=pattern.name)
    return parsed[2]


def attributes_differ(pattern: Instruction, program: Instruction, skip: frozenset[str] = frozenset()) -> str:
    """Which attribute of `program` is not what `pattern` asks for, computations aside, or an empty string."""
    for name, use in pattern.op.attributes.items():
        kind = use.info.kind
        if name in skip or name in _NOT_MEANING or kind in ("computation", "computations"):
            continue
        wanted, found = pattern[name], program[name]
        allowed = pattern.frontend_attributes.get(name)
        if allowed == "any" or _plain(wanted) == _plain(found):
            continue
        if allowed is not None and _text(found) in allowed.split("|"):
            continue
        return f"{program.name} has {name}={_text(found)}, not {allowed or _text(wanted)}"
    return ""


def functions_differ(pattern: Instruction, program: Instruction, shapes: bool) -> str:
    """Which called computation of `program` does something else than the pattern's, or an empty string."""
    mine, other = pattern.called_computations, program.called_computations
    if len(mine) != len(other):
        return f"{program.name} calls {len(other)} computations, not {len(mine)}"
    for a, b in zip(mine, other, strict=True):
        if function_key(a, shapes) != function_key(b, shapes):
            return f"{b.name}, which {program.name} applies, does something else than {a.name} of the pattern"
    return ""


def function_key(computation: Computation, shapes: bool) -> bytes:
    """Equal for computations that do the same: operands of commutative operators in any order, names ignored.

    Dtypes and shapes count just if `shapes`.
    """
    keys: dict[Instruction, bytes] = {}
    for instruction in computation.post_order():
        operands = [keys[o] for o in instruction.operands]
        if instruction.op.commutes:
            operands.sort()
        attributes = [
            (name, _attribute_key(value, shapes))
            for name, value in sorted(instruction.attrs.items(), key=lambda item: item[0])
            if name not in _NOT_MEANING
        ]
        shape = instruction.shape.to_text(False) if shapes else None
        # a digest, since nested keys of a value that is used often would be as long as all paths to it
        row = repr((instruction.opcode, operands, attributes, shape))
        keys[instruction] = hashlib.blake2b(row.encode(), digest_size=16).digest()
    return keys[computation.root]


def _attribute_key(value: Any, shapes: bool) -> Any:
    if isinstance(value, Computation):
        return function_key(value, shapes)
    if isinstance(value, tuple) and value and isinstance(value[0], Computation):
        return tuple(function_key(c, shapes) for c in value)
    return value.to_text() if isinstance(value, Literal) else str(value)


def _same_number(expected: Any, found: Any, program: Instruction, pattern: Instruction | None = None) -> bool:
    """Equality up to one unit of the coarser of the two types; integers exactly; zeros are equal."""
    dtype = program.shape.dtype
    if not (dtype.is_float or dtype.is_complex):
        return int(found) == (int(expected) if float(expected).is_integer() else expected)
    wide = np.complex128 if dtype.is_complex else np.float64
    # a pattern's infinity or limit may be out of the program's range, so round first
    with np.errstate(all="ignore"):
        rounded = wide(np.asarray(expected).astype(dtype.numpy))
    a, b = wide(rounded), wide(found)
    if a == b or (np.isnan(a) and np.isnan(b)):
        return True
    if not np.isfinite(a) or not np.isfinite(b):
        return False
    unit = _epsilon(program)
    if pattern is not None and pattern.shape.dtype.is_float:
        unit = max(unit, _epsilon(pattern))
    return bool(abs(a - b) <= unit * abs(a))


def _epsilon(constant: Instruction) -> float:
    return float(ml_dtypes.finfo(constant.shape.dtype.real.numpy).eps)


def _plain(value: Any) -> Any:
    return () if value is None else value


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "{" + ",".join(map(_text, value)) + "}"
    return str(value)


def _show(value: Any) -> str:
    return "not one number" if value is None else f"{value}"
