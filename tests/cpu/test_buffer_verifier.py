"""The verifier of buffers finds what a planner that is wrong in one place does to programs that it has to work on."""

import numpy as np
import pytest

import xloom as xl
from tests.cpu.call_programs import loop
from xloom.codegen.buffer_values import defining_value, leaf_count
from xloom.codegen.buffers import offsets, reuse
from xloom.codegen.kernel_facts import unread_operands
from xloom.cpu.custom_calls import call_buffers
from xloom.cpu.entry import function, horizontal_fusion
from xloom.errors import BufferAssignmentError

pytestmark = pytest.mark.usefixtures("forget")


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    monkeypatch.setenv("XLOOM_CHECK", "buffers")
    monkeypatch.setenv("XLOOM_CACHE", "0")


SWAP = """c { s = (s32[], f32[100], f32[100]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5)
  ROOT l = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[100], f32[100]) parameter(0) i = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
  j = s32[] add(i, o) x = f32[100] get-tuple-element(s), index=1 y = f32[100] get-tuple-element(s), index=2
  ROOT t = (s32[], f32[100], f32[100]) tuple(j, y, x) }
ENTRY e { p = f32[100] parameter(0) z = s32[] constant(0) q = f32[100] multiply(p, p)
  t = (s32[], f32[100], f32[100]) tuple(z, p, q) ROOT w = (s32[], f32[100], f32[100]) while(t), condition=c, body=b }"""
LATER = """ENTRY e { p = f32[100] parameter(0) m = f32[10,10] reshape(p) a = f32[10,10] multiply(m, m)
  d = f32[10,10] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[10,10] dot(d, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  f = f32[10,10] dot(e, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[10,10] dot(f, e), lhs_contracting_dims={1}, rhs_contracting_dims={0} ROOT r = f32[10,10] add(g, d) }"""
REVERSED = """l { x = f32[] parameter(0) y = f32[] parameter(1) ROOT c = pred[] compare(x, y), direction=LT }
ENTRY e { p = f32[100] parameter(0) a = f32[100] multiply(p, p)
  s = f32[100] sort(a), dimensions={0}, to_apply=l b = f32[100] reverse(s), dimensions={0}
  ROOT r = f32[100] add(b, s) }"""
UPDATE = (
    loop("y = f32[1000] reverse(x), dimensions={0}", dims="1000")
    + """
ENTRY e { p = (s32[], f32[1000]) parameter(0) ROOT w = (s32[], f32[1000]) while(p), condition=c, body=b }"""
)
COLUMNS = """ENTRY e { p = f32[6,2] parameter(0) n = f32[6,2] multiply(p, p)
  k = (f32[6,2]{0,1}, f32[12]) custom-call(n), custom_call_target="c_as_it_lies",
    operand_layout_constraints={f32[6,2]{0,1}}, output_to_operand_aliasing={{0}: (0, {})}
  ROOT s = f32[12] get-tuple-element(k), index=1 }"""
MANY = """ENTRY e { p = f32[70000] parameter(0) q = f32[70000] parameter(1) s = f32[70000] sine(p)
  r = f32[70000] cosine(q) ROOT t = (f32[70000], f32[70000]) tuple(s, r) }"""
GIVEN_NUMBER = """a { x = f32[] parameter(0) ROOT n = f32[] negate(x) }
b { t = (f32[], s32[]) parameter(0) ROOT x = f32[] get-tuple-element(t), index=0 }
ENTRY e { p = f32[] parameter(0) q = s32[] convert(p) k = s32[] constant(7) t = (f32[], s32[]) tuple(p, k)
  ROOT r = f32[] conditional(q, p, t), branch_computations={a, b} }"""


def compiled(text):
    return xl.compile(xl.parse(text))


@pytest.mark.parametrize("text", [SWAP, LATER, REVERSED, UPDATE, MANY, GIVEN_NUMBER])
def test_what_is_right_passes(text):
    module = xl.parse(text)
    arguments = [
        np.arange(p.shape.size, dtype=np.float32).reshape(p.shape.dims)
        if p.shape.is_array
        else (np.int32(0), np.arange(1000, dtype=np.float32))
        for p in module.entry.parameters
    ]
    found, expected = xl.compile(module)(*arguments), xl.evaluate(module, *arguments)
    for a, b in zip(*([v] if isinstance(v, np.ndarray) else v for v in (found, expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_columns_where_rows_lie(c, monkeypatch):
    c("c_as_it_lies")
    compiled(COLUMNS)
    monkeypatch.setattr(call_buffers, "_has_transposed_squares", lambda shape: True)
    with pytest.raises(BufferAssignmentError, match="layout"):
        compiled(COLUMNS)


def test_a_swap_without_a_third_place(monkeypatch):
    monkeypatch.setattr(function.EntryBuilder, "copies", lambda self, pairs: [self.copy(t, s) for t, s in pairs])
    with pytest.raises(BufferAssignmentError, match="next iteration"):
        compiled(SWAP)


def test_everything_at_one_address(monkeypatch):
    monkeypatch.setattr(offsets._FreeSpace, "free", lambda self, allocation: 0)
    with pytest.raises(BufferAssignmentError):
        compiled(LATER)


def test_what_is_read_last_is_written_over_in_any_order(monkeypatch):
    def overwritable(step, made, leaf, target):
        if made.opcode == "sort":
            return []
        return [
            defining_value(o, k)
            for o in made._operands
            for k in range(leaf_count(o.shape))
            if not unread_operands(made)
        ]

    monkeypatch.setattr(reuse, "overwritable", overwritable)
    with pytest.raises(BufferAssignmentError, match="over it"):
        compiled(UPDATE)


def test_state_that_changes_is_lent(monkeypatch):
    monkeypatch.setattr(reuse.BufferReuse, "may_replace", lambda self, block, source, old: True)
    with pytest.raises(BufferAssignmentError):
        compiled(UPDATE)


def test_steps_at_once_that_need_each_other(monkeypatch):
    monkeypatch.setattr(
        horizontal_fusion.HorizontalFusion,
        "admit",
        lambda self, position, read, written: self._positions.append(position),
    )
    with pytest.raises(BufferAssignmentError):
        compiled(MANY.replace("cosine(q)", "reverse(s), dimensions={0}"))
