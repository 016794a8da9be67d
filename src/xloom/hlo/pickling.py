"""Modules for `pickle` and `copy`: rows of numbers, as these would go from operand to operand on Python's stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from xloom.errors import VerifyError
from xloom.hlo.instruction import Instruction, map_called

if TYPE_CHECKING:
    from xloom.hlo.computation import Computation

_Row = tuple[dict[str, Any], list[int], list[tuple[int, int]], list[int], list[int]]
"""An instruction: what it says, the numbers of its operands, of its users and how often each has it as an operand, and
of its control predecessors and successors."""
_Rows = tuple[dict[str, Any], list[_Row], "int | None"]
"""A computation: what it says, its instructions, and the number of its root if one is set."""
_SAYS = ("attrs", "backend_config", "frontend_attributes", "metadata", "name", "opcode", "shape", "sharding")


def flattened(computations: Iterable[Computation]) -> list[_Rows]:
    """Computations as rows. Raises VerifyError for one that uses another's instructions."""
    numbers = {computation: k for k, computation in enumerate(computations)}
    return [_flat_computation(computation, numbers) for computation in numbers]


def unflattened(flat: list[_Rows], new: Callable[[str], Computation]) -> list[Computation]:
    """The computations that rows say, each of them filled into a `new` one."""
    computations = [new("") for _ in flat]
    for computation, (says, rows, root) in zip(computations, flat, strict=True):
        vars(computation).update(says)
        instructions = [Instruction.__new__(Instruction) for _ in rows]
        for instruction, row in zip(instructions, rows, strict=True):
            _fill(instruction, row, instructions)
            map_called(instruction, lambda callee: computations[callee] if isinstance(callee, int) else callee)  # type: ignore
            instruction.parent = computation
        computation._instructions = dict.fromkeys(instructions)
        computation._root = None if root is None else instructions[root]
    return computations


def _flat_computation(computation: Computation, numbers: Mapping[Computation, int]) -> _Rows:
    places = {instruction: k for k, instruction in enumerate(computation._instructions)}
    says = {"name": computation.name, "execution_thread": computation.execution_thread}
    root = None if computation._root is None else places[computation._root]
    return says, [_flat_instruction(i, places, numbers) for i in places], root


def _flat_instruction(
    instruction: Instruction, places: Mapping[Instruction, int], numbers: Mapping[Computation, int]
) -> _Row:
    says = {name: getattr(instruction, name) for name in _SAYS}
    if instruction.called_computations:
        copy = instruction.clone(())
        map_called(copy, lambda callee: numbers.get(callee, callee))  # type: ignore[return-value]
        says["attrs"] = copy.attrs
    try:
        operands = [places[o] for o in instruction._operands]
    except KeyError:
        raise VerifyError(
            f"{instruction.name} has an operand of another computation",
            where=instruction.name,
            hint="give it operands of its own computation: xloom.hlo.verify says what else is wrong",
        ) from None
    users = [(places[user], count) for user, count in instruction._users.items() if user in places]
    before, after = ([places[i] for i in ends or ()] for ends in (instruction._predecessors, instruction._successors))
    return says, operands, users, before, after


def _fill(instruction: Instruction, row: _Row, all: list[Instruction]) -> None:
    says, operands, users, before, after = row
    for name, value in says.items():
        setattr(instruction, name, value)
    instruction._operands = [all[k] for k in operands]
    instruction._users = {all[k]: count for k, count in users}
    instruction._predecessors = [all[k] for k in before] or None
    instruction._successors = [all[k] for k in after] or None
    instruction._places = None
