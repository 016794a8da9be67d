"""What is planted: a predicate of modules, which holds for a given one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.judges.limited import Limited
from xloom.errors import XloomError
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.interpreter import RULES, Evaluator
from xloom.interpreter.bounds import leaves
from xloom.interpreter.registry import Rule, Value
from xloom.interpreter.samples import random_arguments

_PLAIN = frozenset(("parameter", "constant", "tuple", "get-tuple-element"))
_SAMPLES = 3
"""Sets of arguments that values are compared for."""


@dataclass(frozen=True)
class Fault:
    """What is wrong, in words, and of which modules."""

    text: str
    fails: Callable[[Module], bool]


def crash_on_a_pair(module: Module, chance: random.Random) -> Fault:
    """A compiler that crashes on an operator of another, in one rank and type."""
    edges = [
        (i, o)
        for i in module.instructions
        for o in i.operands
        if i.opcode not in _PLAIN and o.opcode not in _PLAIN and i.shape.is_array
    ]
    user, operand = chance.choice(edges)
    wanted = user.opcode, operand.opcode, user.shape.rank, user.shape.dtype

    def fails(smaller: Module) -> bool:
        return any(
            (i.opcode, o.opcode, i.shape.rank, i.shape.dtype) == wanted
            for i in smaller.instructions
            for o in i.operands
        )

    return Fault(f"crash on {user.opcode}({operand.opcode}) of {user.shape.dtype.name}, rank {user.shape.rank}", fails)


def crash_on_two(module: Module, chance: random.Random) -> Fault:
    """A compiler that crashes where two operators that need not be near are in one module."""
    return _beside(*chance.sample(sorted({i.opcode for i in module.instructions} - _PLAIN), 2))


def crash_on_two_that_call(module: Module, chance: random.Random) -> Fault:
    """The same of operators that call computations: loops, sorts, reductions; of one, and another, if there are none."""
    opcodes = sorted({i.opcode for i in module.instructions} - _PLAIN)
    calling = sorted({i.opcode for i in module.instructions if i.called_computations})
    one = chance.choice(calling)
    return _beside(one, chance.choice([o for o in (calling if len(calling) > 1 else opcodes) if o != one]))


def _beside(one: str, two: str) -> Fault:
    def fails(smaller: Module) -> bool:
        return {one, two} <= {i.opcode for i in smaller.instructions}

    return Fault(f"crash on {one} beside {two}", fails)


def invalid_after_a_pass(module: Module, chance: random.Random) -> Fault:
    """A pass that gives the wrong shape to an operator that has several users, from a size on."""
    shared = [i for i in module.instructions if i.opcode not in _PLAIN and len(i.users) > 1 and i.shape.is_array]
    victim = chance.choice(shared)
    least = max(victim.shape.dims, default=0)

    def fails(smaller: Module) -> bool:
        return any(
            i.opcode == victim.opcode
            and len(i.users) > 1
            and i.shape.is_array
            and max(i.shape.dims, default=0) >= least
            for i in smaller.instructions
        )

    return Fault(f"invalid where {victim.opcode} of a size from {least} on has several users", fails)


def wrong_rule(module: Module, chance: random.Random) -> Fault:
    """A backend whose operator is wrong in one type and rank: the last element is another one."""

    def planted(victim: Instruction) -> dict[str, Rule]:
        right = RULES[victim.opcode]

        def rule(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
            value = right(instruction, operands, evaluator)
            shape = instruction.shape
            if (shape.dtype, shape.rank) == (victim.shape.dtype, victim.shape.rank) and isinstance(value, np.ndarray):
                value = np.array(value)
                value[(-1,) * value.ndim] = 3 if value[(-1,) * value.ndim] != 3 else 2
            return value

        return {**RULES, victim.opcode: rule}

    return _differs(module, chance, planted, "a wrong value of {}")


def dropped_operator(module: Module, chance: random.Random) -> Fault:
    """A pass that puts the operand in the place of an operator of one type and rank."""

    def planted(victim: Instruction) -> dict[str, Rule]:
        right = RULES[victim.opcode]

        def rule(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
            shape = instruction.shape
            if (shape.dtype, shape.rank) == (victim.shape.dtype, victim.shape.rank):
                return operands[0]
            return right(instruction, operands, evaluator)

        return {**RULES, victim.opcode: rule}

    return _differs(module, chance, planted, "{} dropped", lambda i: i.operands[0].shape.compatible(i.shape))


def _differs(
    module: Module,
    chance: random.Random,
    planted: Callable[[Instruction], dict[str, Rule]],
    text: str,
    fits: Callable[[Instruction], bool] = lambda i: True,
) -> Fault:
    """Of an instruction that shows in a result."""
    elementwise = [
        i
        for i in module.instructions
        if i.op.elementwise and i.operands and i.shape.is_array and i.shape.size and fits(i)
    ]
    chance.shuffle(elementwise)
    for victim in elementwise:
        rules = planted(victim)

        def fails(smaller: Module, rules: dict[str, Rule] = rules, victim: Instruction = victim) -> bool:
            if all(i.opcode != victim.opcode for i in smaller.instructions):
                return False
            try:
                return any(_values(smaller, RULES, n) != _values(smaller, rules, n) for n in range(_SAMPLES))
            except XloomError:
                return False

        if fails(module):
            return Fault(text.format(f"{victim.opcode} of {victim.shape.dtype.name}, rank {victim.shape.rank}"), fails)
    raise AssertionError("no result depends on any operator")


def _values(module: Module, rules: dict[str, Rule], seed: int) -> list[bytes]:
    value = Limited(module, rules=rules).call(module.entry, random_arguments(module, seed))
    return [leaf.tobytes() for leaf in leaves(value)]


FAULTS = (crash_on_a_pair, crash_on_two, crash_on_two_that_call, invalid_after_a_pass, wrong_rule, dropped_operator)
"""What is planted, in turn."""
