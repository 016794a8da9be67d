"""One row per opcode: every opcode has one, each says what the rules do, and a new opcode needs nothing else."""

import numpy as np
import pytest

import xloom as xl
from xloom.codegen.elemental.lowering import ELEMENTS, SCALAR
from xloom.codegen.loop_ir.nodes import OWN_COSTS
from xloom.codegen.ops import OP_ROWS, Role, Trait, row
from xloom.cpu.entry.function import CONTROL_FLOW_EMITTERS, THUNK_EMITTERS
from xloom.cpu.kernels import rule_of
from xloom.hlo import opcodes
from xloom.hlo.opcodes import OPCODES, Flags, op
from xloom.infer import registry as shapes
from xloom.infer.elementwise import infers
from xloom.interpreter import registry as values
from xloom.llvm.scalar import rules
from xloom.passes import PASSES


def having(role: Role) -> set[str]:
    return {name for name, found in OP_ROWS.items() if found.role is role}


def test_every_opcode_has_a_row_and_no_other_has():
    assert set(OP_ROWS) == set(OPCODES)


def test_what_is_part_of_loop_nests_has_a_rule_for_an_element():
    assert {name for name in having(Role.ELEMENT) if name not in ELEMENTS and name not in rules.RULES} == set()
    # a dynamic-update-slice is a store, whose elements no reader asks for
    assert having(Role.ROOT) - set(ELEMENTS) == {"dynamic-update-slice"}
    # of some kernels there is one too, for backends that have no better algorithm
    assert set(ELEMENTS) - {SCALAR} - {"dot", "convolution"} <= having(Role.ELEMENT) | having(Role.ROOT)


def test_kernels_have_rules_and_nothing_else_has():
    assert {name for name, found in OP_ROWS.items() if rule_of(name) is not None} == having(Role.KERNEL)
    assert {name for name, found in OP_ROWS.items() if found.kernel} == having(Role.KERNEL)


def test_thunks_of_the_entry_function_have_rules():
    assert set(CONTROL_FLOW_EMITTERS) == having(Role.CONTROL)
    # a token is no memory, and a fusion that preparation has made is a step
    assert set(THUNK_EMITTERS) == having(Role.ENTRY) | {"after-all", "fusion"}


def test_what_is_rewritten_says_by_which_passes():
    for name, found in OP_ROWS.items():
        assert bool(found.by) == (found.role is Role.REWRITTEN), name
        assert set(found.by.split()) <= set(PASSES), name
    asynchronous = {name for name, found in OPCODES.items() if Flags.ASYNC in found.flags}
    assert asynchronous <= having(Role.REWRITTEN)


def test_the_loop_irs_own_operators_have_rules_and_costs():
    assert set(OWN_COSTS) == set(rules.RULES) - set(OPCODES)


def test_traits_are_of_opcodes_that_can_have_them():
    for name, found in OP_ROWS.items():
        if Trait.SKIPS_UNREAD in found.traits or Trait.BY_SHAPE in found.traits:
            assert found.role is Role.KERNEL, name
        if Trait.FREE in found.traits or Trait.PASSES_VALUE in found.traits:
            assert found.cost == 1, name


@pytest.fixture
def reciprocal(monkeypatch):
    """An opcode that HLO has not, declared in the five places that there are."""
    for table in (OPCODES, OP_ROWS, shapes.RULES, values.RULES, rules.RULES):
        monkeypatch.setitem(table, "reciprocal", None)  # so that it is taken away again
    op("reciprocal", 1, Flags.ELEMENTWISE, "1 / x")
    infers("reciprocal")(lambda operands, attrs: operands[0])
    values.evaluates("reciprocal")(lambda instruction, operands, evaluator: 1 / operands[0])
    row("reciprocal", Role.ELEMENT, cost=6)
    rules.emits("reciprocal")(lambda b, operator, x: b.fdiv(x.type(1.0), x))
    assert opcodes.lookup("reciprocal").elementwise


def test_a_new_opcode_is_declared_in_five_places_and_works_everywhere(reciprocal, tmp_path, monkeypatch):
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))
    text = """HloModule m
inverse { a = f32[] parameter(0) ROOT r = f32[] reciprocal(a) }
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[6,7] parameter(0) y = f32[6,7] reciprocal(x) z = f32[6,7] map(y), dimensions={0,1}, to_apply=inverse
  zero = f32[] constant(0) s = f32[6] reduce(y, zero), dimensions={1}, to_apply=sum
  ROOT r = (f32[6,7], f32[6]) tuple(z, s) }"""
    module = xl.parse(text)
    x = np.random.default_rng(0).uniform(1, 2, (6, 7)).astype(np.float32)
    assert "reciprocal(" in module.to_text()
    assert xl.from_proto(module.to_proto()).to_text() == module.to_text()
    for found, wanted in zip(xl.compile(module)(x), xl.evaluate(xl.parse(text), x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    outlined = xl.parse(text)
    xl.run_passes(outlined, "cse,algebraic-simplification,dce")
    np.testing.assert_allclose(xl.compile(outlined)(x)[0], x, rtol=1e-6)
