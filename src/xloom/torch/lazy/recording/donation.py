"""Donation: which results of a program take the memory of arguments that are dead, so that updates stay in place.

A tensor that is written to gets another value, and the buffer of the one before is unreferenced then, unless a view, a
clone or autograd still has that value. Only the trace refers to it, and the program may have its memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import getrefcount

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import InputOutputAlias, Module
from xloom.hlo.opcodes import lookup

LEAST_BYTES = 1 << 15
"""Of smaller results the memory is no matter, and to say where they go takes time."""

_MOST_LOOKED_AT = 64
"""Instructions that a result is followed back to; updates are shorter."""

_PARTS = frozenset({"dynamic-update-slice", "scatter"})
"""Opcodes whose result is their first operand, but for a part."""


_ALONE = 1 + 1
"""References to what only a sequence has: that one, and the question's own."""


def unused(arguments: Sequence[object], numbers: Iterable[int]) -> list[int]:
    """Those of the arguments, by number, that only the sequence refers to."""
    return [number for number in numbers if getrefcount(arguments[number]) == _ALONE]


def alias(module: Module, free: Iterable[int]) -> list[int]:
    """Lets results lie where those of the free parameters do that they are updates of; the numbers of these."""
    parameters = module.entry.parameters
    left = {parameters[number] for number in free if parameters[number].shape.nbytes >= LEAST_BYTES}
    if not left:
        return []
    near = [(far, k, p) for k, result in enumerate(module.entry.root.operands) for far, p in _updated(result)]
    near.sort(key=lambda each: each[:2])
    taken: set[int] = set()
    for _, result, parameter in near:
        if parameter in left and result not in taken:
            taken.add(result)
            left.remove(parameter)
            number = parameter.attrs["parameter_number"]
            module.config.input_output_alias.append(InputOutputAlias((result,), number, ()))
    return [each.parameter for each in module.config.input_output_alias]


def _updated(result: Instruction) -> list[tuple[int, Instruction]]:
    """The parameters of its shape that a result comes from element by element, each with how far it is away."""
    size = result.shape.size
    found: list[tuple[int, Instruction]] = []
    seen = {result}
    layer = [result]
    far = 0
    while layer and len(seen) < _MOST_LOOKED_AT:
        far += 1
        before = [each for instruction in layer for each in _kept(instruction) if each.shape.size == size]
        layer = [each for each in dict.fromkeys(before) if each not in seen]
        seen.update(layer)
        found += [(far, p) for p in layer if p.opcode == "parameter" and p.shape == result.shape]
    return found


def _kept(instruction: Instruction) -> Sequence[Instruction]:
    """The operands whose elements are where the result's are."""
    if lookup(instruction.opcode).elementwise:
        return instruction.operands
    return instruction.operands[:1] if instruction.opcode in _PARTS or instruction.opcode == "reshape" else ()
