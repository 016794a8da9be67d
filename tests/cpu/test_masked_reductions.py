"""Reductions of masked elements, of which only the unmasked ones are visited, beside the interpreter."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from xloom.cpu.printers.kernel_choices import kernel_choices_text
from xloom.llvm.target import target_named

LENGTH = 150
LIMITS = [-(2**63), -5, 0, 1, 70, LENGTH - 1, LENGTH, 2**40, 2**63 - 1]
REGIONS = """
add {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT r = {t}[] add(a, b) }}
maximum {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT r = {t}[] maximum(a, b) }}
"""
MASKS = {
    "below": "m = pred[150] compare(at, i), direction=LT",
    "up_to": "m = pred[150] compare(at, i), direction=LE",
    "above": "m = pred[150] compare(at, i), direction=GT",
    "from": "m = pred[150] compare(i, at), direction=LE",
    "at": "m = pred[150] compare(i, at), direction=EQ",
    "between": "p = pred[150] compare(at, i), direction=GE q = pred[150] compare(at, j), direction=LT"
    " m = pred[150] and(p, q)",
    "not_below": "p = pred[150] compare(at, i), direction=LT m = pred[150] not(p)",
    "backwards": "last = s64[] constant(149) l = s64[150] broadcast(last), dimensions={} o = s64[150] subtract(l, at)"
    " m = pred[150] compare(o, i), direction=LT",
    "shifted": "two = s64[] constant(2) l = s64[150] broadcast(two), dimensions={} o = s64[150] subtract(at, l)"
    " m = pred[150] compare(o, i), direction=GE",
}
HEAD = """
ENTRY e {{ x = {t}[150] parameter(0) first = s64[] parameter(1) second = s64[] parameter(2)
  i = s64[150] broadcast(first), dimensions={{}} j = s64[150] broadcast(second), dimensions={{}}
  at = s64[150] iota(), iota_dimension=0 zero = {t}[] constant(0) seven = {t}[] constant(7)
  z = {t}[150] broadcast(zero), dimensions={{}} s = {t}[150] broadcast(seven), dimensions={{}}
"""
VALUES = {
    "zero": "y = {t}[150] select(m, x, z)",
    "seven": "y = {t}[150] select(m, x, s)",
    "counted": "y = {t}[150] convert(m)",
    "product": "a = {t}[150] select(m, x, z) b = {t}[150] select(m, x, s) y = {t}[150] multiply(a, b)",
    "unmasked_too": "a = {t}[150] select(m, x, z) y = {t}[150] add(a, x)",
}
TYPES = {"f32": np.float32, "f64": np.float64, "s32": np.int32, "s8": np.int8, "bf16": ml_dtypes.bfloat16}


def program(dtype: str, mask: str, value: str, operator: str) -> xl.Module:
    root = f"ROOT r = {dtype}[] reduce(y, zero), dimensions={{0}}, to_apply={operator} }}"
    text = (REGIONS + HEAD + "{mask}\n" + VALUES[value]).format(t=dtype, mask=MASKS[mask])
    return xl.parse(f"HloModule m\n{text}\n{root}")


def numbers(dtype: str, *shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) * 7 % 11 - 5).astype(TYPES[dtype])


def visits_few(module: xl.Module) -> bool:
    return "only where masks hold" in kernel_choices_text(module, target=target_named("x86-64-v4"))


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask, value):
    module = program("f64", mask, value, "add")
    assert visits_few(module) == (value != "unmasked_too")
    compiled = xl.compile(module)
    for i, j in [*itertools.product(LIMITS, LIMITS[:1]), (10, 90), (90, 10), (3, 3), (-4, 200)]:
        arguments = numbers("f64", LENGTH), np.int64(i), np.int64(j)
        np.testing.assert_array_equal(compiled(*arguments), xl.evaluate(module, *arguments))


@pytest.mark.parametrize("operator", ["add", "maximum"])
@pytest.mark.parametrize("dtype", TYPES)
def test_types(dtype, operator):
    module = program(dtype, "between", "seven", operator)
    assert visits_few(module)
    compiled = xl.compile(module)
    x, at = numbers(dtype, LENGTH), np.arange(LENGTH)
    for i, j in [(0, 0), (0, LENGTH), (20, 21), (20, 140)]:
        masked = np.where((at >= i) & (at < j), x.astype(int), 7)
        expected = masked.sum() if operator == "add" else masked.max(initial=0)
        np.testing.assert_array_equal(compiled(x, np.int64(i), np.int64(j)), expected.astype(TYPES[dtype]))


@pytest.mark.parametrize("operator, outside", [("and", True), ("or", False), ("or", True)])
def test_predicates(operator, outside):
    module = xl.parse(f"""HloModule m
    r {{ a = pred[] parameter(0) b = pred[] parameter(1) ROOT r = pred[] {operator}(a, b) }}
    ENTRY e {{ x = pred[150] parameter(0) first = s32[] parameter(1) i = s32[150] broadcast(first), dimensions={{}}
      at = s32[150] iota(), iota_dimension=0 m = pred[150] compare(at, i), direction=LT
      other = pred[] constant({str(outside).lower()}) o = pred[150] broadcast(other), dimensions={{}}
      y = pred[150] select(m, x, o) start = pred[] constant({str(operator == "and").lower()})
      ROOT r = pred[] reduce(y, start), dimensions={{0}}, to_apply=r }}""")
    assert visits_few(module)
    x = np.arange(LENGTH) < 70 if operator == "and" else np.arange(LENGTH) >= 70
    for limit in (0, 60, 70, 71, 100, LENGTH):
        arguments = x, np.int32(limit)
        np.testing.assert_array_equal(xl.compile(module)(*arguments), xl.evaluate(module, *arguments))


@pytest.mark.parametrize("dtype, first", [("s64", 2**62 + 5), ("u64", 2**63 + 5), ("s64", -(2**62) - 500)])
def test_places_beyond_what_limits_are_cut_to(dtype, first):
    module = xl.parse(f"""HloModule m
    add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
    ENTRY e {{ x = f32[150] parameter(0) n = {dtype}[] parameter(1) i = {dtype}[150] broadcast(n), dimensions={{}}
      c = {dtype}[] constant({first}) f = {dtype}[150] broadcast(c), dimensions={{}} o = {dtype}[150] iota(), iota_dimension=0
      at = {dtype}[150] add(o, f) m = pred[150] compare(at, i), direction=LT zero = f32[] constant(0)
      z = f32[150] broadcast(zero), dimensions={{}} y = f32[150] select(m, x, z)
      ROOT r = f32[] reduce(y, zero), dimensions={{0}}, to_apply=add }}""")
    for count in (0, 50, LENGTH):
        limit = np.asarray(first + count, np.uint64 if dtype == "u64" else np.int64)
        np.testing.assert_array_equal(xl.compile(module)(np.ones(LENGTH, np.float32), limit), count)


def test_a_place_that_the_program_computes_stays_masked():
    """The index of a gathered index changes along the loop as that does, not by one."""
    module = xl.parse("""HloModule m
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
    ENTRY e { x = f32[150] parameter(0) by = s32[150] parameter(1) first = s32[] parameter(2)
      at = s32[150] iota(), iota_dimension=0
      there = s32[150] gather(at, by), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
        index_vector_dim=1, slice_sizes={1}
      place = s32[150] add(at, there) i = s32[150] broadcast(first), dimensions={}
      m = pred[150] compare(place, i), direction=LT zero = f32[] constant(0) z = f32[150] broadcast(zero), dimensions={}
      y = f32[150] select(m, x, z) ROOT r = f32[] reduce(y, zero), dimensions={0}, to_apply=add }""")
    by = np.random.default_rng(0).permutation(LENGTH).astype(np.int32)
    for limit in (0, 100, 150, 200, 300):
        arguments = numbers("f32", LENGTH), by, np.int32(limit)
        np.testing.assert_array_equal(xl.compile(module)(*arguments), xl.evaluate(module, *arguments))


@pytest.mark.parametrize("limits, of, lengths", [("s32[]", "{}", 70), ("s32[5]", "{0}", [0, 1, 70, 149, 200])])
def test_a_limit_of_each_row_is_not_read_for_rows_that_have_none(limits, of, lengths):
    """Those of zeros below the masked rows."""
    module = xl.parse(f"""HloModule m
    add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
    ENTRY e {{ x = f32[5,150] parameter(0) lengths = {limits} parameter(1)
      i = s32[5,150] broadcast(lengths), dimensions={of} at = s32[5,150] iota(), iota_dimension=1
      m = pred[5,150] compare(at, i), direction=LT zero = f32[] constant(0)
      z = f32[5,150] broadcast(zero), dimensions={{}} y = f32[5,150] select(m, x, z)
      o = f32[4000,150] broadcast(zero), dimensions={{}} c = f32[4005,150] concatenate(y, o), dimensions={{0}}
      ROOT r = f32[4005] reduce(c, zero), dimensions={{1}}, to_apply=add }}""")
    assert visits_few(module) == (limits == "s32[]")
    x, ends = numbers("f32", 5, 150), np.array(lengths, np.int32)
    expected = np.zeros(4005, np.float32)
    expected[:5] = np.where(np.arange(150) < ends[..., None], x, 0).sum(1)
    np.testing.assert_array_equal(xl.compile(module)(x, ends), expected)


@pytest.mark.parametrize("limit", [0, 1, 40, LENGTH])
def test_what_is_not_finite_counts_where_it_is_multiplied(limit):
    """A masked element that is gathered is the first one: times zero a NaN, if there are such elements."""
    module = xl.parse("""HloModule m
    add { a = f64[] parameter(0) b = f64[] parameter(1) ROOT r = f64[] add(a, b) }
    ENTRY e { x = f64[150] parameter(0) first = s32[] parameter(1) i = s32[150] broadcast(first), dimensions={}
      at = s32[150] iota(), iota_dimension=0 m = pred[150] compare(at, i), direction=LT
      none = s32[] constant(0) n = s32[150] broadcast(none), dimensions={} place = s32[150] select(m, at, n)
      zero = f64[] constant(0) z = f64[150] broadcast(zero), dimensions={} v = f64[150] select(m, x, z)
      g = f64[150] gather(x, place), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
        index_vector_dim=1, slice_sizes={1}
      y = f64[150] multiply(v, g) ROOT r = f64[] reduce(y, zero), dimensions={0}, to_apply=add }""")
    assert visits_few(module)
    x = numbers("f64", LENGTH)
    for first in (3.0, np.inf):
        x[0] = first
        arguments = x, np.int32(limit)
        np.testing.assert_array_equal(xl.compile(module)(*arguments), xl.evaluate(module, *arguments))


def test_a_length_of_each_row():
    module = xl.parse("""HloModule m
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
    ENTRY e { x = f32[6,150] parameter(0) lengths = u32[6] parameter(1) i = u32[6,150] broadcast(lengths), dimensions={0}
      at = u32[6,150] iota(), iota_dimension=1 m = pred[6,150] compare(at, i), direction=LT
      zero = f32[] constant(0) z = f32[6,150] broadcast(zero), dimensions={} y = f32[6,150] select(m, x, z)
      c = f32[6,150] convert(m) s = f32[6] reduce(y, zero), dimensions={1}, to_apply=add
      n = f32[6] reduce(c, zero), dimensions={1}, to_apply=add ROOT r = f32[6] divide(s, n) }""")
    assert visits_few(module)
    arguments = numbers("f32", 6, 150), np.array([1, 150, 2**32 - 1, 77, 64, 3], np.uint32)
    np.testing.assert_allclose(xl.compile(module)(*arguments), xl.evaluate(module, *arguments), rtol=1e-6)


@pytest.mark.parametrize("results", [64, 1000])
@pytest.mark.parametrize("rows", [70, 128, 20_000])
@pytest.mark.parametrize("operator", ["add", "maximum"])
def test_columns(results, rows, operator):
    """Neighbours in memory belong to different results: what is elsewhere is added to all of these."""
    shape = f"f32[{rows},{results}]"
    module = xl.parse(f"""HloModule m
    r {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] {operator}(a, b) }}
    ENTRY e {{ x = {shape} parameter(0) low = s32[] parameter(1) high = s32[] parameter(2) o = f32[{results}] parameter(3)
      i = s32[{rows},{results}] broadcast(low), dimensions={{}} j = s32[{rows},{results}] broadcast(high), dimensions={{}}
      at = s32[{rows},{results}] iota(), iota_dimension=0 p = pred[{rows},{results}] compare(at, i), direction=GE
      q = pred[{rows},{results}] compare(at, j), direction=LT m = pred[{rows},{results}] and(p, q)
      other = {shape} broadcast(o), dimensions={{1}} y = {shape} select(m, x, other) zero = f32[] constant(0)
      ROOT r = f32[{results}] reduce(y, zero), dimensions={{0}}, to_apply=r }}""")
    assert visits_few(module)
    compiled = xl.compile(module)
    x, other = numbers("f32", rows, results), (np.arange(results) % 3).astype(np.float32)
    for low, high in [(0, 0), (0, rows), (3, 4), (1, rows - 1), (rows - 9, rows), (40, 10)]:
        masked = np.where(((np.arange(rows) >= low) & (np.arange(rows) < high))[:, None], x, other)
        expected = masked.sum(0) if operator == "add" else masked.max(0, initial=0)
        np.testing.assert_array_equal(compiled(x, np.int32(low), np.int32(high), other), expected)


def test_a_mask_along_the_results_stays_a_mask():
    module = xl.parse("""HloModule m
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
    ENTRY e { x = f32[100,128] parameter(0) at = s32[100,128] iota(), iota_dimension=0
      along = s32[100,128] iota(), iota_dimension=1 m = pred[100,128] compare(at, along), direction=GE
      zero = f32[] constant(0) z = f32[100,128] broadcast(zero), dimensions={} y = f32[100,128] select(m, x, z)
      ROOT r = f32[128] reduce(y, zero), dimensions={0}, to_apply=add }""")
    assert not visits_few(module)
    x = numbers("f32", 100, 128)
    np.testing.assert_array_equal(
        xl.compile(module)(x), np.where(np.arange(100)[:, None] >= np.arange(128), x, 0).sum(0)
    )


@pytest.mark.parametrize("low, high", [(0, 0), (5, 6), (100, 90_000), (0, 100_000), (99_999, 100_000)])
def test_a_long_row(low, high):
    """Longer than a run of a sum, and in pieces that threads share."""
    module = xl.parse("""HloModule m
    add { a = f64[] parameter(0) b = f64[] parameter(1) ROOT r = f64[] add(a, b) }
    ENTRY e { x = f64[100000] parameter(0) low = s32[] parameter(1) high = s32[] parameter(2)
      i = s32[100000] broadcast(low), dimensions={} j = s32[100000] broadcast(high), dimensions={}
      at = s32[100000] iota(), iota_dimension=0 p = pred[100000] compare(at, i), direction=GE
      q = pred[100000] compare(at, j), direction=LT m = pred[100000] and(p, q)
      one = f64[] constant(1) o = f64[100000] broadcast(one), dimensions={} y = f64[100000] select(m, x, o)
      e = f64[100000] sqrt(y) zero = f64[] constant(0) ROOT r = f64[] reduce(e, zero), dimensions={0}, to_apply=add }""")
    assert visits_few(module)
    arguments = np.arange(100_000.0) ** 2, np.int32(low), np.int32(high)
    np.testing.assert_array_equal(xl.compile(module)(*arguments), xl.evaluate(module, *arguments))


def test_rows_of_a_sparse_matrix():
    """A masked dot in a loop is a sum of what its masks leave, which one thread makes."""
    module = xl.parse("""HloModule m
    c { s = (s32[], s32[41], s32[90000], f64[90000], f64[40]) parameter(0) i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(40) ROOT r = pred[] compare(i, n), direction=LT }
    b { s = (s32[], s32[41], s32[90000], f64[90000], f64[40]) parameter(0) i = s32[] get-tuple-element(s), index=0
      rows = s32[41] get-tuple-element(s), index=1 columns = s32[90000] get-tuple-element(s), index=2
      values = f64[90000] get-tuple-element(s), index=3 y = f64[40] get-tuple-element(s), index=4
      one = s32[] constant(1) next = s32[] add(i, one) l = s32[1] dynamic-slice(rows, i), dynamic_slice_sizes={1}
      h = s32[1] dynamic-slice(rows, next), dynamic_slice_sizes={1} ls = s32[] reshape(l) hs = s32[] reshape(h)
      low = s32[90000] broadcast(ls), dimensions={} high = s32[90000] broadcast(hs), dimensions={}
      at = s32[90000] iota(), iota_dimension=0 p = pred[90000] compare(at, low), direction=GE
      q = pred[90000] compare(at, high), direction=LT m = pred[90000] and(p, q)
      none = s32[] constant(0) n = s32[90000] broadcast(none), dimensions={} zero = f64[] constant(0)
      z = f64[90000] broadcast(zero), dimensions={} column = s32[90000] select(m, columns, n)
      v = f64[90000] select(m, values, z)
      g = f64[90000] gather(values, column), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
        index_vector_dim=1, slice_sizes={1}
      d = f64[] dot(v, g), lhs_contracting_dims={0}, rhs_contracting_dims={0} ds = f64[1] reshape(d)
      new = f64[40] dynamic-update-slice(y, ds, i)
      ROOT r = (s32[], s32[41], s32[90000], f64[90000], f64[40]) tuple(next, rows, columns, values, new) }
    ENTRY e { rows = s32[41] parameter(0) columns = s32[90000] parameter(1) values = f64[90000] parameter(2)
      i = s32[] constant(0) zero = f64[] constant(0) y = f64[40] broadcast(zero), dimensions={}
      s = (s32[], s32[41], s32[90000], f64[90000], f64[40]) tuple(i, rows, columns, values, y)
      w = (s32[], s32[41], s32[90000], f64[90000], f64[40]) while(s), condition=c, body=b
      ROOT r = f64[40] get-tuple-element(w), index=4 }""")
    rng = np.random.default_rng(0)
    rows = np.sort(rng.integers(0, 90_001, 41)).astype(np.int32)
    columns, values = rng.integers(0, 90_000, 90_000).astype(np.int32), rng.integers(-9, 9, 90_000).astype(float)
    sums = [values[low:high] @ values[columns[low:high]] for low, high in itertools.pairwise(rows)]
    np.testing.assert_array_equal(xl.compile(module)(rows, columns, values), sums)
    assert visits_few(module)
    assert "shared among threads" not in kernel_choices_text(module, target=target_named("x86-64-v4"))
