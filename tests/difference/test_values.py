"""The first instruction whose value differs."""

from typing import Any

import numpy as np
import pytest

import xloom as xl
from tests.difference.test_structure import BEFORE as LOOP
from xloom.difference import Interpreter, Native, first_difference
from xloom.difference.search import Program, between
from xloom.interpreter.registry import RULES
from xloom.interpreter.samples import random_arguments


def off(opcode, *, by=1e-2, when=lambda instruction: True):
    """The interpreter with one operator that is wrong."""

    def rule(instruction, operands, evaluator):
        value = RULES[opcode](instruction, operands, evaluator)
        if not when(instruction):
            return value
        value = np.array(value)
        value.reshape(-1)[-1] += by
        return value

    return Interpreter({**RULES, opcode: rule}, name="a wrong backend")


class Quiet(Interpreter):
    """As compilers are asked: for few values at a time."""

    asked = 0

    def values(self, module, instructions, arguments):
        self.asked += 1
        assert len(instructions) <= 16
        return super().values(module, instructions, arguments)


def search(text, side):
    """Found or not: of any type, so that what is found can be asked."""
    module = xl.parse(text)
    found: Any = first_difference(Program(module, side), Program(module, Interpreter()), random_arguments(module))
    return found


def chain(length, special):
    lines = [f"  x{k + 1} = f32[5] {'tanh' if k == special else 'sine'}(x{k})" for k in range(length)]
    return "\n".join(["ENTRY e {", "  x0 = f32[5] parameter(0)", *lines, f"  ROOT r = f32[5] negate(x{length})", "}"])


def test_the_first_of_many():
    found = search(chain(40, 23), off("tanh"))
    assert found.instruction.name == "x24" and found.index == (4,) and found.alone
    assert (found.count, found.size) == (1, 5) and found.ulps > 1e4
    assert "%x24, tanh, is the first that differs: [4] is" in str(found) and "a wrong backend" in str(found)


def test_bisection_asks_for_few_values():
    side = Quiet(off("tanh").rules, observes_all=False)
    assert search(chain(200, 123), side).instruction.name == "x124"
    assert side.asked < 12


def test_nothing_where_rounding_alone_differs():
    assert search(chain(40, 23), off("tanh", by=1e-8)) is None
    assert search(chain(6, 3), Native()) is None


def test_inside_a_loop():
    found = search(LOOP, off("tanh"))
    assert found.instruction.name == "y" and found.inside == ("iteration 0 of %w",)
    assert found.instruction.parent.name == "body"


def test_inside_a_loop_at_the_iteration_where_it_begins():
    rule = RULES["tanh"]

    def large(instruction, operands, evaluator):
        value = rule(instruction, operands, evaluator)
        return value + np.float32(0.1) if operands[0].max() < 0.7 else value

    found = search(LOOP, Interpreter({**RULES, "tanh": large}))
    assert found.instruction.name == "y" and found.inside == ("iteration 3 of %w",)


def test_a_pass_that_changes_a_value():
    before = xl.parse(chain(20, 5))
    after = xl.parse(chain(20, 5).replace("tanh(x5)", "tanh(x4)"))
    arguments = random_arguments(before)
    side = Interpreter()
    found: Any = between(Program(before, side), Program(after, side), arguments)
    assert found.instruction.name == "x6"
    assert between(Program(before, side), Program(before.clone(), side), arguments) is None


def test_what_is_saved_reproduces_it(tmp_path):
    found = search(LOOP, off("tanh"))
    found.save(tmp_path)
    alone = xl.load(tmp_path / "alone.hlo")
    operands = [np.load(tmp_path / f"operand{k}.npy") for k in range(len(alone.entry.parameters))]
    right = xl.evaluate(alone, *operands)
    assert right[found.index] == found.expected
    assert np.load(tmp_path / "argument0.npy").shape == (8,)


def test_arguments_that_do_not_fit():
    with pytest.raises(xl.ShapeError, match="takes 1 arguments"):
        module = xl.parse(LOOP)
        first_difference(Program(module, Native()), Program(module, Interpreter()), [])


def test_a_wrong_value_that_rounding_of_results_may_hide_is_found_in_the_middle():
    text = """HloModule m
ENTRY main { x = f32[64] parameter(0)
  s = f32[64] multiply(x, x) t = f32[64] OPCODE(s) h = bf16[64] convert(t) ROOT r = bf16[64] negate(h) }"""
    before, after = (xl.parse(text.replace("OPCODE", opcode)) for opcode in ("tanh", "sine"))
    x = np.linspace(0.2, 0.3, 64, dtype=np.float32)  # differences of half of what bf16 rounds by
    found = between(Program(before, Native()), Program(after, Native()), [x])
    assert found is not None and found.instruction.name == "t"
    assert between(Program(before, Native()), Program(before.clone(""), Native()), [x]) is None
