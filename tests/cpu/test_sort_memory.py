"""Sorts where their operands lie, and without arrays of numbers: memory for no more than arguments and results."""

import numpy as np
import pytest

import xloom as xl
from tests.cpu.test_sort import ANY, CANONICAL, LESS, RNG, values
from xloom.cpu.prepare import prepared
from xloom.llvm.target import process_target

TWO_KEYS = """p = {t}[] parameter(0) q = {t}[] parameter(1) u = {t}[] parameter(2) v = {t}[] parameter(3)
  first = pred[] compare(p, q), direction={d}  same = pred[] compare(p, q), direction=EQ
  less = pred[] compare(u, v), direction=LT  ROOT c = pred[] select(same, less, first)"""


def region(text, dtypes, direction="LT"):
    types = [t for t in dtypes for _ in "ab"]
    used = 4 if "parameter(3)" in text else 2
    rest = " ".join(f"r{k} = {t}[] parameter({k})" for k, t in enumerate(types) if k >= used)
    return f"less {{ {rest} {text.replace('{t}', dtypes[0]).replace('{d}', direction)} }}"


def check(text, temporary=0):
    module = xl.parse(text)
    data = [values(p.shape, k) for k, p in enumerate(module.entry.parameters)]
    if "TOTALORDER" not in text:  # which says nothing of NaNs
        data = [RNG.integers(-9, 9, x.shape).astype(x.dtype) for x in data]
    executable = xl.compile(module)
    found, expected = executable(*data), xl.evaluate(module, *data)
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for f, e in zip(found, expected, strict=True):
        assert np.asarray(f).tobytes() == np.asarray(e).tobytes()
    assert executable.memory.temporary_bytes <= temporary


@pytest.mark.parametrize("text", [LESS, CANONICAL, TWO_KEYS, ANY], ids=["less", "canonical", "two keys", "any"])
@pytest.mark.parametrize(
    ("dims", "dtypes"),
    [
        ((30, 10), ["f32", "f32"]),
        ((20, 100), ["f32", "f32"]),
        ((3, 1000), ["f32", "f32"]),
        ((3, 1000), ["s16", "s16", "f64"]),
        ((4, 700), ["f64", "f64"]),
        ((2, 4000), ["s8", "s8"]),
    ],
)
def test_payloads_that_are_computed(text, dims, dtypes):
    """The results take the place of what is computed of the arguments."""
    if text is CANONICAL and dtypes[0][0] != "f":
        pytest.skip("of floats")
    shapes = [f"{t}[{dims[0]},{dims[1]}]" for t in dtypes]
    parameters = " ".join(f"x{k} = {s} parameter({k})" for k, s in enumerate(shapes))
    computed = " ".join(f"y{k} = {s} add(x{k}, x{k})" for k, s in enumerate(shapes) if k)
    operands = ", ".join("x0" if k == 0 else f"y{k}" for k in range(len(dtypes)))
    check(f"""HloModule m
{region(text, dtypes)}
ENTRY e {{ {parameters} {computed}
  ROOT s = ({", ".join(shapes)}) sort({operands}), dimensions={{1}}, is_stable=true, to_apply=less }}""")


@pytest.mark.parametrize("dtype", ["s8", "s32", "f32", "f64", "bf16"])
@pytest.mark.parametrize("dims", [(50, 10), (9, 300), (2, 10_000)])
def test_single_operands_that_are_computed(dtype, dims):
    shape = f"{dtype}[{dims[0]},{dims[1]}]"
    text = CANONICAL if dtype[0] in "fb" else LESS
    check(f"""HloModule m
{region(text, [dtype], "GT")}
ENTRY e {{ x = {shape} parameter(0) y = {shape} negate(x)
  ROOT s = {shape} sort(y), dimensions={{1}}, is_stable=true, to_apply=less }}""")


@pytest.mark.skipif(not process_target().packs_lanes(), reason="the host sorts otherwise")
@pytest.mark.parametrize("text", [CANONICAL, TWO_KEYS])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_long_rows(text, dtype):
    """Keys and orders lie in results and on the stack, and what is computed in a result that is written last."""
    shape = f"{dtype}[12000]"
    check(
        f"""HloModule m
{region(text, [dtype, dtype])}
ENTRY e {{ x = {shape} parameter(0) y = {shape} negate(x)
  ROOT s = ({shape}, {shape}) sort(x, y), dimensions={{0}}, is_stable=true, to_apply=less }}""",
        temporary=64,
    )


@pytest.mark.sampled
@pytest.mark.parametrize("index", ["s16", "s32", "u64"])
@pytest.mark.parametrize("dtype", ["s8", "bf16", "f32", "f64"])
@pytest.mark.parametrize(("dims", "dimension"), [((300, 9), 0), ((9, 300), 1), ((2, 12_000), 1)])
def test_numbers_are_made(dtype, index, dims, dimension):
    """An operand that holds each element's number in the row is never in memory."""
    if dims[dimension] > 1000 and dtype[-1] == "2" and not process_target().packs_lanes():
        pytest.skip("the host sorts otherwise")
    shape, numbers = (f"{t}[{dims[0]},{dims[1]}]" for t in (dtype, index))
    check(
        f"""HloModule m
{region(CANONICAL if dtype[0] in "fb" else LESS, [dtype, index])}
ENTRY e {{ x = {shape} parameter(0) i = {index}[{dims[dimension]}] iota(), iota_dimension=0
  n = {numbers} broadcast(i), dimensions={{{dimension}}}
  s = ({shape}, {numbers}) sort(x, n), dimensions={{{dimension}}}, is_stable=true, to_apply=less
  ROOT r = {numbers} get-tuple-element(s), index=1 }}""",
        temporary=2 * 4 * 2 * 12_000 if dims == (2, 12_000) else 0,
    )


def test_a_loop_state_that_goes_along_with_a_computed_key():
    """Its old elements are all read, wherever the new ones lie."""
    check(
        f"""HloModule m
{region(LESS, ["s32", "f32"])}
body {{ p = (s32[], s32[9,20], f32[9,20]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = s32[9,20] get-tuple-element(p), index=1 y = f32[9,20] get-tuple-element(p), index=2
  one = s32[] constant(1) n = s32[] add(i, one) k = s32[9,20] negate(x)
  s = (s32[9,20], f32[9,20]) sort(k, y), dimensions={{1}}, is_stable=true, to_apply=less
  a = s32[9,20] get-tuple-element(s), index=0 b = f32[9,20] get-tuple-element(s), index=1
  ROOT t = (s32[], s32[9,20], f32[9,20]) tuple(n, a, b) }}
condition {{ p = (s32[], s32[9,20], f32[9,20]) parameter(0) i = s32[] get-tuple-element(p), index=0
  three = s32[] constant(3) ROOT c = pred[] compare(i, three), direction=LT }}
ENTRY e {{ x = s32[9,20] parameter(0) y = f32[9,20] parameter(1) zero = s32[] constant(0)
  t = (s32[], s32[9,20], f32[9,20]) tuple(zero, x, y)
  w = (s32[], s32[9,20], f32[9,20]) while(t), condition=condition, body=body
  ROOT r = f32[9,20] get-tuple-element(w), index=2 }}""",
        temporary=2 * 4 * 9 * 20 + 256,
    )


@pytest.mark.parametrize("dims", [(200, 9), (40, 20), (2000, 3)])
@pytest.mark.parametrize("dtypes", [["f32"], ["f32", "f32"], ["s8", "s8"], ["f64", "s16", "f64"]], ids=len)
def test_columns_that_are_computed(dims, dtypes):
    """Those that a network sorts are where they were, and all are right."""
    shapes = [f"{t}[{dims[0]},{dims[1]}]" for t in dtypes]
    parameters = " ".join(f"x{k} = {s} parameter({k}) y{k} = {s} negate(x{k})" for k, s in enumerate(shapes))
    operands = ", ".join(f"y{k}" for k in range(len(dtypes)))
    shape = f"({', '.join(shapes)})" if len(dtypes) > 1 else shapes[0]
    computed = sum(xl.parse(f"ENTRY e {{ ROOT x = {s} parameter(0) }}").entry.root.shape.nbytes for s in shapes)
    check(
        f"""HloModule m
{region(CANONICAL if dtypes[0][0] == "f" else LESS, dtypes)}
ENTRY e {{ {parameters}
  ROOT s = {shape} sort({operands}), dimensions={{0}}, is_stable=true, to_apply=less }}""",
        temporary=0 if dims[0] <= 256 and dtypes[0] != "f64" else 4 * computed,
    )


PART = """HloModule m
less { p = f32[] parameter(0) q = f32[] parameter(1) ROOT c = pred[] compare(p, q), direction=LT, type=TOTALORDER }
more { s = (s32[], f32[300], f32[300]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(TRIPS)
  ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[300], f32[300]) parameter(0) i = s32[] get-tuple-element(s), index=0
  a = f32[300] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  q = f32[300] sort(a), dimensions={0}, to_apply=less
  b = f32[300] reverse(a), dimensions={0} ROOT t = (s32[], f32[300], f32[300]) tuple(j, q, b) }
ENTRY e { x = f32[300] parameter(0) z = s32[] constant(0)
  q = f32[300] sort(x), dimensions={0}, to_apply=less
  t = (s32[], f32[300], f32[300]) tuple(z, q, x)
  w = (s32[], f32[300], f32[300]) while(t), condition=more, body=body
  y = f32[300] get-tuple-element(w), index=2 ROOT r = f32[300] negate(y) }"""


@pytest.mark.parametrize(("trips", "sorts"), [(0, 0), (1, 1)])
def test_the_first_state_of_a_loop_that_is_none_any_more_is_not_sorted(trips, sorts):
    text = PART.replace("TRIPS", str(trips))
    check(text, temporary=4096)
    assert sum(i.opcode == "sort" for i in prepared(xl.parse(text)).instructions) == sorts


def test_a_part_of_a_tuple_that_nobody_reads_is_not_sorted():
    check(
        """HloModule m
    less { p = f32[] parameter(0) q = f32[] parameter(1) ROOT c = pred[] compare(p, q), direction=LT }
    ENTRY e { x = f32[300] parameter(0) y = f32[300] sine(x)
      q = f32[300] sort(x), dimensions={0}, to_apply=less  t = (f32[300], f32[300]) tuple(q, x)
      g = f32[300] get-tuple-element(t), index=1, control-predecessors={y}
      ROOT r = f32[300] add(g, g) }"""
    )
