"""Results that need not be beside each other: one computes from another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.loops import is_element
from xloom.reduction.base import Reduction, Site, UnfitError, outputs_of, set_outputs
from xloom.reduction.substitution import zeros


@dataclass(frozen=True)
class ParameterToOutput(Reduction):
    """Who reads a parameter of the entry reads one of its results: (parameter, number of the result)."""

    name: ClassVar[str] = "chain results"
    together: ClassVar[bool] = False

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        outputs = outputs_of(module)
        return [
            (p, n)
            for p, parameter in enumerate(module.entry.parameters)
            for n, output in enumerate(outputs)
            if output.shape == parameter.shape and output is not parameter and parameter.users
        ]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        ((p, n),) = sites
        parameter, output = module.entry.parameters[p], outputs_of(module)[n]
        outputs = [o for o in outputs_of(module) if o is not parameter]
        readers = [user for user in parameter.users if not _depends(output, user)]
        for user in readers:
            for k, operand in enumerate(user.operands):
                if operand is parameter:
                    user.replace_operand(k, output)
        set_outputs(module, [o for o in outputs if o is not output] if readers else outputs)


@dataclass(frozen=True)
class IdleState(Reduction):
    """A loop, call or branch of the entry that returns what it is given is given a result of it: (both numbers)."""

    name: ClassVar[str] = "chain calls"
    together: ClassVar[bool] = False

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        outputs = outputs_of(module)
        return [
            (k, n)
            for k, i in enumerate(module.entry.instructions)
            if _is_idle(i)
            for n, output in enumerate(outputs)
            if output is not i and output.shape.is_array
        ]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        ((k, n),) = sites
        idle, outputs = module.entry.instructions[k], outputs_of(module)
        state = outputs[n]
        if _depends(state, idle) or any(len(module.callers()[c]) > 1 for c in idle.called_computations):
            raise UnfitError
        for part in idle.users:
            if is_element(part, idle):
                part.replace_all_uses_with(zeros(module.entry, part.shape))
        first = len(idle.operands) - len(_states(idle))
        for number in range(first, len(idle.operands)):
            idle.replace_operand(number, state)
        idle.shape = state.shape
        for computation in idle.called_computations:
            computation.parameters[0].shape = state.shape
        set_outputs(module, [o for o in outputs if o is not state])


def _states(instruction: Instruction) -> tuple[Instruction, ...]:
    return instruction.operands[1:] if instruction.opcode == "conditional" else instruction.operands


def _is_idle(instruction: Instruction) -> bool:
    """Whether all that it calls hands the state on; the condition of a loop does not read it."""
    if instruction.opcode == "while":
        return _hands_on(instruction["body"]) and instruction["condition"].parameters[0].is_dead
    if instruction.opcode not in ("call", "conditional") or len(set(_states(instruction))) != 1:
        return False
    return all(map(_hands_on, instruction.called_computations))


def _hands_on(computation: Computation) -> bool:
    return computation.root.opcode == "parameter" and len(computation.parameters) == 1


def _depends(one: Instruction, other: Instruction) -> bool:
    """Whether `one` is computed from `other`, or is it."""
    seen, stack = {one}, [one]
    while stack:
        for operand in stack.pop().operands:
            if operand not in seen:
                seen.add(operand)
                stack.append(operand)
    return other in seen
