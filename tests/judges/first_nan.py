"""Is a planted NaN found at the instruction that makes it? `make judge-first-nan`.

Random programs, with loops and branches every other time, in which an instruction that runs is followed by a square root
of negative numbers, which its users read instead. Native code is asked, with `check=["nan"]`.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence

import numpy as np
from rich.progress import track

import xloom as xl
from tests.judges.first_difference.planted import Planted, may_be_wrong, steps
from tests.judges.programs.generator import generate
from tests.judges.stateful.generator import generate as generate_stateful
from xloom.errors import CheckError, XloomError
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import literal
from xloom.hlo.module import Module
from xloom.interpreter.evaluator import Evaluator
from xloom.interpreter.first_fault import evaluate_checked
from xloom.interpreter.registry import Value
from xloom.passes import run_passes

MADE = "square_root_of_negatives"
_UNSAMPLED = frozenset(("custom-call", "infeed", "outfeed", "rng"))


class _Ran(Evaluator):
    """Notes which instructions ran."""

    def __init__(self, module: Module):
        super().__init__(module)
        self.ran: set[Instruction] = set()

    def apply(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """See Evaluator."""
        self.ran.add(instruction)
        return super().apply(instruction, operands)


def planted(seed: int, number: int, stateful: bool) -> Planted:
    """A program that makes no NaN but at the instruction called MADE; the victim is what that reads."""
    chance = random.Random(f"nan {seed} {number}")
    for attempt in range(10_000):
        program = (generate_stateful if stateful else generate)(seed, 10_000 * number + attempt)
        module, arguments = program.module, program.arguments
        run_passes(module, "dce")  # no result depends on the rest, which does not run
        candidates = [i for i in steps(module) if may_be_wrong(i) and i.shape.dtype.is_float and i.users]
        if len(candidates) < 4 or any(i.opcode in _UNSAMPLED for i in module.instructions):
            continue
        try:
            evaluate_checked(module, *arguments, checks=["nan"])
            ran = _Ran(module)
            ran.call(module.entry, arguments)
        except XloomError:
            continue
        candidates = [i for i in candidates if i in ran.ran]
        if candidates:
            victim = chance.choice(candidates)
            _make_nan(victim)
            return Planted(module, arguments, victim.name)
    raise AssertionError("no program has such an instruction")


def _make_nan(victim: Instruction) -> None:
    computation, shape = victim.parent, victim.shape
    assert computation is not None
    one = literal(np.ones((), shape.dtype.numpy))
    constant = computation.add(Instruction("one", "constant", one.shape, (), {"literal": one}))
    ones = computation.add(Instruction("ones", "broadcast", shape, [constant], {"dimensions": ()}))
    made = computation.add(Instruction(MADE, "sqrt", shape, [ones]))
    victim.replace_all_uses_with(made)
    size = computation.add(Instruction("size", "abs", shape, [victim]))
    less = computation.add(Instruction("less", "negate", shape, [size]))
    made.replace_operand(0, computation.add(Instruction("negatives", "subtract", shape, [less, ones])))


def found(case: Planted) -> str:
    """The instruction that native code's run names; nothing if it names none."""
    try:
        xl.compile(case.module, check=["nan"])(*case.arguments)
    except CheckError as error:
        return error.instruction
    return ""


def main() -> None:
    """Exit status 1 if one is not found at its instruction."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    right = 0
    for number in track(range(options.count), "NaNs", disable=not sys.stdout.isatty()):
        case = planted(options.seed, number, stateful=number % 2 == 1)
        begin = time.monotonic()
        said = found(case)
        right += said == MADE
        count = sum(map(len, case.module.computations))
        verdict = "right" if said == MADE else f"WRONG: {said or 'nothing'}"
        print(f"{number:3} {verdict}, after %{case.victim} of {count}, {time.monotonic() - begin:.1f} s", flush=True)
        if said != MADE:
            print(case.module.to_text(print_large_constants=True))
    print(f"{right} of {options.count} are found at the right instruction")
    sys.exit(right < options.count)


if __name__ == "__main__":
    main()
