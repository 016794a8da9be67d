"""Operators that change an operand where it lies, although they or others read it too."""

import numpy as np
import pytest

import xloom as xl
from xloom.cpu.kernel_modules.copies import LARGE
from xloom.cpu.prepare import prepared
from xloom.cpu.printers import schedule_text
from xloom.llvm.target import process_target

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
X = np.arange(1000, dtype=np.float32)
PLACES = ((np.arange(1000, dtype=np.int32) + 1) % 1000).reshape(1000, 1)


@pytest.mark.parametrize("users", ["s", "f32[1000] add(s, x)", "f32[1000] negate(s)"])
@pytest.mark.parametrize(
    "operator, index",
    [
        (
            "s = f32[1000] scatter(x, i, x), update_window_dims={}, inserted_window_dims={0}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
            PLACES,
        ),
        ("u = f32[500] slice(x), slice={[0:500]} s = f32[1000] dynamic-update-slice(x, u, i)", np.int32(3)),
        ("u = f32[500] slice(x), slice={[500:1000]} s = f32[1000] dynamic-update-slice(x, u, i)", np.int32(300)),
        ("u = f32[5] constant({5, 4, 3, 2, 1}) s = f32[1000] dynamic-update-slice(x, u, i)", np.int32(300)),
    ],
)
def test_an_operand_that_is_read_too(operator, index, users):
    indices = "s32[1000,1]" if index.ndim else "s32[]"
    end = operator.replace(" s =", " ROOT s =").replace("s = f32[1000] scatter", "ROOT s = f32[1000] scatter")
    end = end if users == "s" else f"{operator} ROOT r = {users}"
    module = xl.parse(
        f"{ADD}\nENTRY e {{ p = f32[1000] parameter(0) i = {indices} parameter(1) x = f32[1000] negate(p) {end} }}"
    )
    np.testing.assert_array_equal(xl.compile(module)(X, index), xl.evaluate(module, X, index))


def test_a_large_array_that_stays_as_it_was():
    n = int(LARGE * process_target().caches.last) // 4 + 777  # not whole pieces
    module = xl.parse(
        f"ENTRY e {{ x = f32[{n}] parameter(0) u = f32[2] parameter(1) i = s32[] parameter(2) "
        f"ROOT s = f32[{n}] dynamic-update-slice(x, u, i) }}"
    )
    room = np.arange(n + 1, dtype=np.float32)
    update = np.array([-1, -2], np.float32)
    executable = xl.compile(module)
    for x in (room[:-1], room[1:]):  # and however it lies
        expected = x.copy()
        expected[5:7] = update
        np.testing.assert_array_equal(executable(x, update, np.int32(5)), expected)
    np.testing.assert_array_equal(room, np.arange(n + 1))


ROWS = """HloModule m
c {{ s = (s32[], f32[40,30], f32[30,40]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant({count})
  ROOT t = pred[] compare(i, n), direction=LT }}
b {{ s = (s32[], f32[40,30], f32[30,40]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[40,30] get-tuple-element(s), index=1 y = f32[30,40] get-tuple-element(s), index=2 one = s32[] constant(1)
  zero = s32[] constant(0) j = s32[] add(i, one) two = s32[] constant(2) h = s32[] add(i, two)
  row = f32[1,30] dynamic-slice(x, {read}), dynamic_slice_sizes={{1,30}}
  column = f32[30,1] dynamic-slice(y, zero, i), dynamic_slice_sizes={{30,1}} turned = f32[1,30] reshape(column)
  sum = f32[1,30] add(row, turned) new = f32[40,30] dynamic-update-slice(x, sum, i, zero)
  ROOT r = (s32[], f32[40,30], f32[30,40]) tuple(j, new, y) }}
ENTRY e {{ x = f32[40,30] parameter(0) y = f32[30,40] parameter(1) z = s32[] constant(0)
  s = (s32[], f32[40,30], f32[30,40]) tuple(z, x, y)
  w = (s32[], f32[40,30], f32[30,40]) while(s), condition=c, body=b
  ROOT r = f32[40,30] get-tuple-element(w), index=1 }}"""


@pytest.mark.parametrize(("read", "is_same"), [("i, zero", True), ("j, zero", False), ("i, one", True), ("h, zero", 0)])
@pytest.mark.parametrize("count", [38, 40])
def test_a_row_that_is_changed_where_it_lies(read, is_same, count):
    """Of another row that is read, the sum has an array of its own: else all of the array would be copied."""
    module = xl.parse(ROWS.format(read=read, count=count))
    text = schedule_text(module)
    assert "%new f32[40,30]  result 0  in place of %s.1{1}" in text
    assert ("writes  %sum f32[1,30]" in text) != is_same
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(40, 30)).astype(np.float32), generator.normal(size=(30, 40)).astype(np.float32)
    np.testing.assert_array_equal(xl.compile(module)(x, y), xl.evaluate(module, x, y))


ELEMENTS = """HloModule m
c { s = (s32[], f32[20,20]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(19)
  ROOT t = pred[] compare(i, n), direction=LT }
b { s = (s32[], f32[20,20]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[20,20] get-tuple-element(s), index=1
  one = s32[] constant(1) j = s32[] add(i, one) a = f32[1,1] dynamic-slice(x, i, j), dynamic_slice_sizes={1,1}
  d = f32[1,1] dynamic-slice(x, j, j), dynamic_slice_sizes={1,1} q = f32[1,1] add(a, d)
  new = f32[20,20] dynamic-update-slice(x, q, i, i) ROOT r = (s32[], f32[20,20]) tuple(j, new) }
ENTRY e { x = f32[20,20] parameter(0) z = s32[] constant(0) s = (s32[], f32[20,20]) tuple(z, x)
  w = (s32[], f32[20,20]) while(s), condition=c, body=b ROOT r = f32[20,20] get-tuple-element(w), index=1 }"""


def test_an_element_is_made_of_others_before_it_is_written():
    module = xl.parse(ELEMENTS)
    text = schedule_text(module)
    assert "%new f32[20,20]  result 0  in place of %s.1{1}" in text and "writes  %q" not in text
    x = np.random.default_rng(0).normal(size=(20, 20)).astype(np.float32)
    np.testing.assert_array_equal(xl.compile(module)(x), xl.evaluate(module, x))


WHERE_IT_SAYS = """ENTRY e { p = s32[SIZE] parameter(0) u = s32[3] parameter(1) x = s32[SIZE] negate(p)
  one = s32[1] slice(x), slice={[5:6]} i = s32[] reshape(one) old = s32[3] dynamic-slice(x, i), dynamic_slice_sizes={3}
  new = s32[3] add(old, u) ROOT r = s32[SIZE] dynamic-update-slice(x, new, i) }"""


@pytest.mark.parametrize("size", [8, 40])
def test_an_array_that_says_where_it_is_changed(size):
    """Where that is, is read before the first element is written: others would go elsewhere."""
    module = xl.parse(WHERE_IT_SAYS.replace("SIZE", str(size)))
    text = schedule_text(module)
    assert ("in place of %x" in text) == (size == 40)
    x, u = -np.arange(size, dtype=np.int32), np.full(3, 10, np.int32)
    np.testing.assert_array_equal(xl.compile(module)(x, u), xl.evaluate(module, x, u))


SHORTEST_PATHS = """HloModule m
c { s = (s32[], s32[70,70]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(70)
  ROOT t = pred[] compare(i, n), direction=LT }
b { s = (s32[], s32[70,70]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = s32[70,70] get-tuple-element(s), index=1
  zero = s32[] constant(0) one = s32[] constant(1) j = s32[] add(i, one)
  column = s32[70,1] dynamic-slice(x, zero, i), dynamic_slice_sizes={70,1} from = s32[70] reshape(column)
  row = s32[1,70] dynamic-slice(x, i, zero), dynamic_slice_sizes={1,70} to = s32[70] reshape(row)
  rows = s32[70,70] broadcast(from), dimensions={0} columns = s32[70,70] broadcast(to), dimensions={1}
  through = s32[70,70] add(rows, columns) new = s32[70,70] minimum(x, through)
  ROOT r = (s32[], s32[70,70]) tuple(j, new) }
ENTRY e { x = s32[70,70] parameter(0) z = s32[] constant(0) s = (s32[], s32[70,70]) tuple(z, x)
  w = (s32[], s32[70,70]) while(s), condition=c, body=b ROOT r = s32[70,70] get-tuple-element(w), index=1 }"""


@pytest.mark.parametrize(
    "change", [("minimum(x, through)", True), ("subtract(through, x)", True), ("add(rows, rows)", False)]
)
def test_state_that_is_made_of_slices_of_itself(change):
    """Slices first: as soon as an element is written, those that are made of it would see the new one."""
    operator, is_read = change
    module = xl.parse(SHORTEST_PATHS.replace("minimum(x, through)", operator))
    if is_read:
        text = schedule_text(module)
        assert "%new s32[70,70]  result 0  in place of %s.1{1}" in text and "writes  %column" in text
    x = np.random.default_rng(0).integers(1, 100, (70, 70), dtype=np.int32)
    np.testing.assert_array_equal(xl.compile(module)(x), xl.evaluate(module, x))


BRANCHES = """HloModule m
c { s = (s32[], f32[40,30], f32[30]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(9)
  ROOT t = pred[] compare(i, n), direction=LT }
row { s = (s32[], f32[40,30], f32[30]) parameter(0) i = s32[] get-tuple-element(s), index=0 z = s32[] constant(0)
  x = f32[40,30] get-tuple-element(s), index=1 v = f32[30] get-tuple-element(s), index=2
  u = f32[1,30] reshape(v) w = f32[40,30] dynamic-update-slice(x, u, i, z)
  ROOT r = (f32[40,30], f32[30]) tuple(w, v) }
all { s = (f32[40,30], f32[30]) parameter(0) x = f32[40,30] get-tuple-element(s), index=0
  v = f32[30] get-tuple-element(s), index=1 y = f32[40,30] LAST n = f32[30] negate(v)
  ROOT r = (f32[40,30], f32[30]) tuple(y, n) }
b { s = (s32[], f32[40,30], f32[30]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[40,30] get-tuple-element(s), index=1 v = f32[30] get-tuple-element(s), index=2
  one = s32[] constant(1) odd = s32[] and(i, one) is = pred[] compare(odd, one), direction=EQ j = s32[] add(i, one)
  some = (f32[40,30], f32[30]) tuple(x, v)
  e = (f32[40,30], f32[30]) conditional(is, s, some), true_computation=row, false_computation=all
  y = f32[40,30] get-tuple-element(e), index=0 w = f32[30] get-tuple-element(e), index=1
  ROOT r = (s32[], f32[40,30], f32[30]) tuple(j, y, w) }
ENTRY e { x = f32[40,30] parameter(0) v = f32[30] parameter(1) i = s32[] constant(0) s = (s32[], f32[40,30], f32[30]) tuple(i, x, v)
  ROOT w = (s32[], f32[40,30], f32[30]) while(s), condition=c, body=b }"""


@pytest.mark.parametrize("last, copies", [("negate(x)", 0), ("sine(x)", 0), ("reverse(x), dimensions={0}", 1)])
def test_branches_change_a_loop_s_state_where_it_lies(last, copies):
    module = xl.parse(BRANCHES.replace("LAST", last))
    text = schedule_text(module)
    assert "writes  %w f32[40,30]  result 1  in place of" in text
    assert text.count("copied to result 1") == copies
    x, v = np.random.default_rng(0).random((40, 30), np.float32), np.arange(30, dtype=np.float32)
    for got, expected in zip(xl.compile(module)(x, v), xl.evaluate(module, x, v), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_window_that_always_fits_is_not_chosen():
    """What is folded to constants is simplified once more: here that the indices of a scatter are in bounds."""
    text = """second { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
    ENTRY e { x = f32[64,64] parameter(0) u = f32[62,62] parameter(1) one = s32[] constant(1)
      row = s32[1] reshape(one) column = s32[1] broadcast(one), dimensions={}
      at = s32[2] concatenate(row, column), dimensions={0}
      ROOT r = f32[64,64] scatter(x, at, u), update_window_dims={0,1}, inserted_window_dims={},
        scatter_dims_to_operand_dims={0,1}, index_vector_dim=0, to_apply=second }"""
    assert {i.opcode for i in prepared(xl.parse(text)).instructions} == {
        "parameter",
        "constant",
        "dynamic-update-slice",
    }
