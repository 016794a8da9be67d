"""Of values that the interpreter has: where an instruction has made a NaN or an infinity, and which elements did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xloom.hlo.instruction import Instruction
from xloom.hlo.non_finite import NAN, is_inexact
from xloom.interpreter.evaluator import Evaluator
from xloom.interpreter.registry import Value

_MOST = 4
"""Elements of a sum that are named."""


class Element(NamedTuple):
    """An element of an operand."""

    number: int
    """Of the operand."""
    index: tuple[int, ...]
    value: np.generic


def made_elements(
    instruction: Instruction, operands: Sequence[Value], value: np.ndarray, kind: str, evaluator: Evaluator
) -> np.ndarray:
    """bool[value's dimensions]: where a NaN or an infinity is that no element has which it depends on."""
    is_bad = np.isnan if kind == NAN else _is_not_finite
    found = np.isnan(value) if kind == NAN else np.isinf(value)
    if not found.any():
        return found
    bad = {k: is_bad(x) for k, x in enumerate(operands) if is_inexact(instruction.operands[k].shape)}
    bad = {k: x for k, x in bad.items() if x.any()}
    if not bad:
        return found
    opcode = instruction.opcode
    if instruction.op.elementwise or opcode == "map":
        tainted = list(bad.values())
    elif opcode == "reduce":
        count, along = len(operands) // 2, tuple(instruction["dimensions"])
        tainted = [x.any(axis=along) if k < count else x for k, x in bad.items()]
    elif opcode in ("dot", "convolution"):  # products of indicators with ones count what each element meets
        tainted = [_product(instruction, operands, k, x, evaluator) > 0 for k, x in bad.items()]
    else:
        tainted = [np.True_]
    for each in tainted:
        found = found & ~each
    return found


def _product(
    instruction: Instruction, operands: Sequence[Value], number: int, indicator: np.ndarray, evaluator: Evaluator
) -> np.ndarray:
    plain = Instruction(instruction.name, instruction.opcode, instruction.shape, instruction.operands)
    plain.attrs = {n: v for n, v in instruction.attrs.items() if n not in ("operand_precision", "algorithm")}
    given = [np.ones(x.shape, x.dtype) if k != number else indicator.astype(x.dtype) for k, x in enumerate(operands)]
    found = evaluator.rules[instruction.opcode](plain, given, evaluator)
    plain.set_operands(())
    return np.abs(found)


def makers(instruction: Instruction, operands: Sequence[Value], index: tuple[int, ...]) -> list[Element]:
    """The operand elements that an element of the value comes from; of many, those not finite, or else the largest."""
    opcode = instruction.opcode
    if instruction.op.elementwise or opcode == "map":
        return [_element(k, x, index if np.ndim(x) else ()) for k, x in enumerate(operands)]
    if opcode == "reduce":
        along = instruction["dimensions"]
        rest = iter(index)
        place = tuple(slice(None) if d in along else next(rest) for d in range(operands[0].ndim))
        return _of_slice(0, operands[0], place)
    if opcode == "dot":
        return _of_dot(instruction, operands, index)
    found = []
    for k, x in enumerate(operands):
        if is_inexact(instruction.operands[k].shape) and x.size:
            found += _of_slice(k, x, (slice(None),) * x.ndim, 1)
    return found


def _of_dot(dot: Instruction, operands: Sequence[Value], index: tuple[int, ...]) -> list[Element]:
    batch = dict(zip(dot["lhs_batch_dims"], index, strict=False)), dict(zip(dot["rhs_batch_dims"], index, strict=False))
    free = iter(index[len(batch[0]) :])
    slices = []
    for k, side in enumerate(("lhs", "rhs")):
        summed = dot[f"{side}_contracting_dims"]
        where = [
            batch[k][d] if d in batch[k] else slice(None) if d in summed else next(free)
            for d in range(operands[k].ndim)
        ]
        order = np.argsort(np.argsort(summed))
        slices.append((where, summed, operands[k][tuple(where)].transpose(order)))
    (_, _, a), (_, _, b) = slices
    if not a.size:
        return []
    with np.errstate(all="ignore"):
        at = np.unravel_index(_worst(_wide(a) * _wide(b), 1)[0], a.shape)
    found = []
    for k, (where, summed, _) in enumerate(slices):
        place = list(where)
        for d, i in zip(summed, at, strict=True):
            place[d] = int(i)
        found.append(_element(k, operands[k], tuple(place)))
    return found


def _of_slice(number: int, x: np.ndarray, place: tuple[slice | int, ...], most: int = _MOST) -> list[Element]:
    part = x[place]
    found = []
    for flat in _worst(_wide(part), most) if part.size else ():
        inner = iter(np.unravel_index(flat, part.shape))
        found.append(_element(number, x, tuple(int(next(inner)) if isinstance(p, slice) else p for p in place)))
    return found


def _worst(values: np.ndarray, most: int) -> list[int]:
    """The numbers of the first elements that are not finite, or of the largest."""
    flat = values.reshape(-1)
    bad = np.flatnonzero(~np.isfinite(flat))[:most]
    if bad.size:
        return [int(k) for k in bad]
    return [int(k) for k in np.argsort(-np.abs(flat), kind="stable")[:most]]


def _element(number: int, x: Value, index: tuple[int, ...]) -> Element:
    return Element(number, index, np.asarray(x)[index])


def _is_not_finite(x: np.ndarray) -> np.ndarray:
    return ~np.isfinite(x)


def _wide(x: np.ndarray) -> np.ndarray:
    return x if x.dtype.kind == "c" else x.astype(np.float64)
