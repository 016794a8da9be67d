"""Programs with one instruction that is wrong, in a backend, in native code, or by a pass."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.judges.limited import Limited
from tests.judges.programs.generator import generate
from tests.judges.stateful.generator import generate as generate_stateful
from xloom.difference import FirstDifference, Interpreter, Native, first_difference
from xloom.difference.search import Program, between
from xloom.errors import XloomError
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import literal
from xloom.hlo.module import Module
from xloom.interpreter.bounds import bounds, leaves
from xloom.interpreter.registry import Value

_NOT_WRONG = frozenset(("parameter", "constant", "tuple", "get-tuple-element", "while", "conditional", "call", "rng"))
_CONTROL = frozenset(("while", "conditional", "call"))


@dataclass(frozen=True)
class Planted:
    """A program, its arguments, and the name of what is wrong in it."""

    module: Module
    arguments: Sequence[Value]
    victim: str


def planted(seed: int, number: int, stateful: bool) -> Planted:
    """A program of which one instruction, which results depend on, is off by one: in the entry, a loop or a branch."""
    chance = random.Random(f"{seed} {number}")
    for attempt in range(10_000):
        make = generate_stateful if stateful else generate
        program = make(seed, 10_000 * number + attempt)
        candidates = [i for i in steps(program.module) if may_be_wrong(i)]
        if len(candidates) < 4:
            continue
        victim = chance.choice(candidates)
        found = Planted(program.module, program.arguments, victim.name)
        if _shows(found):
            return found
    raise AssertionError("no program depends on any instruction")


def steps(module: Module) -> list[Instruction]:
    """What runs as a step: not what is done to elements."""
    found, stack = [], [module.entry]
    while stack:
        for instruction in stack.pop():
            found.append(instruction)
            if instruction.opcode in _CONTROL:
                stack += instruction.called_computations
    return found


def may_be_wrong(instruction: Instruction) -> bool:
    """Whether a value can be planted in it: an array of plain numbers in the default layout."""
    shape = instruction.shape
    plain = shape.is_array and not shape.is_dynamic and bool(shape.size) and shape.dtype.name in ("f32", "f64", "s32")
    return plain and instruction.opcode not in _NOT_WRONG and shape.layout is not None and shape.layout.is_default


def _shows(found: Planted) -> bool:
    if any(i.opcode in ("custom-call", "infeed", "outfeed") for i in found.module.instructions):
        return False
    try:
        Limited(found.module).call(found.module.entry, found.arguments)  # what takes long to run takes longer to search
        wrong_module = miscompiled(found.module, found.victim)
        wrong = leaves(Limited(wrong_module).call(wrong_module.entry, found.arguments))
        limits = bounds(found.module, found.arguments)
        return any(
            limit.wrong(value).any() and not limit.loose().any() for limit, value in zip(limits, wrong, strict=True)
        )
    except XloomError:
        return False


def miscompiled(module: Module, victim: str) -> Module:
    """What reads the victim, and what returns it, gets one more."""
    wrong = module.clone("")
    for instruction in [i for i in wrong.instructions if i.name == victim]:
        computation = instruction.parent
        assert computation is not None
        computation.root = computation.root
        dtype = instruction.shape.dtype
        one = literal(np.ones((), dtype.numpy))
        constant = computation.add(Instruction("one", "constant", one.shape, (), {"literal": one}))
        ones = computation.add(Instruction("ones", "broadcast", instruction.shape, [constant], {"dimensions": ()}))
        more = computation.add(Instruction("off_by_one", "add", instruction.shape, [ones, ones]))
        instruction.replace_all_uses_with(more)
        more.replace_operand(0, instruction)
    return wrong


class WrongBackend(Interpreter):
    """The interpreter, for few values at a time, of another program."""

    def __init__(self, victim: str):
        super().__init__(name="a wrong backend", observes_all=False)
        self.victim = victim

    def values(self, module: Module, instructions: Sequence[Instruction], arguments: Sequence[Value]) -> list[Value]:
        """See Side."""
        wrong = miscompiled(module, self.victim)
        by_name = {i.name: i for i in wrong.entry}
        wanted = [by_name[i.name] for i in instructions]
        users = [next((u for u in i.users if u.name.startswith("off_by_one")), i) for i in wanted]
        return super().values(wrong, users, arguments)


class WrongCode(Native):
    """A compiler that miscompiles one instruction."""

    def __init__(self, victim: str):
        super().__init__(name="wrong code")
        self.victim = victim

    def _compiled(self, module: Module) -> Callable[..., Value]:
        return super()._compiled(miscompiled(module, self.victim))


def by_backend(found: Planted) -> FirstDifference | None:
    """What is said of a backend that is wrong."""
    return first_difference(
        Program(found.module, WrongBackend(found.victim)), Program(found.module, Interpreter()), found.arguments
    )


def by_code(found: Planted) -> FirstDifference | None:
    """What is said of wrong native code."""
    return first_difference(
        Program(found.module, WrongCode(found.victim)), Program(found.module, Interpreter()), found.arguments
    )


def by_pass(found: Planted) -> FirstDifference | None:
    """What is said of a module in which an instruction is another one: what is added to it, or what reads that."""
    side = Interpreter()
    return between(Program(found.module, side), Program(miscompiled(found.module, found.victim), side), found.arguments)


KINDS: dict[str, Callable[[Planted], FirstDifference | None]] = {
    "backend": by_backend,
    "native code": by_code,
    "pass": by_pass,
}
"""Who is wrong, in turn."""


def is_right(found: Planted, said: FirstDifference | None) -> bool:
    """Whether that is the instruction that is wrong; after a pass, the one that was added or reads what was added."""
    if said is None:
        return False
    if said.instruction.name == found.victim:
        return True
    return any(o.name.startswith("off_by_one") for o in (said.instruction, *said.instruction.operands))
