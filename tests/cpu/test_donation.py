"""Arguments that the caller gives away: results lie where they lay."""

import tracemalloc

import numpy as np
import pytest

import xloom as xl
from xloom.errors import EvaluationError

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
LOOP = """
below { s = (s32[], f32[1000]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5)
  ROOT l = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[1000]) parameter(0) i = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
  j = s32[] add(i, o) x = f32[1000] get-tuple-element(s), index=1 u = f32[3] constant({7, 8, 9})
  y = f32[1000] dynamic-update-slice(x, u, i) ROOT t = (s32[], f32[1000]) tuple(j, y) }
"""
PAIR = " ROOT t = (f32[1000], f32[1000]) tuple({}, {})"
BODIES = {  # of x and y, f32[1000], and i, s32[], whose results take the place of x and y
    "elementwise": "a = f32[1000] multiply(x, x) b = f32[1000] negate(y)" + PAIR.format("a", "b"),
    "both read both": "a = f32[1000] add(x, y) b = f32[1000] subtract(x, y)" + PAIR.format("a", "b"),
    "one after another": "a = f32[1000] add(x, y) b = f32[1000] sine(a) c = f32[1000] negate(b)"
    + PAIR.format("c", "b"),
    "swapped": PAIR.format("y", "x"),
    "as they are": PAIR.format("x", "y"),
    "the first twice": "a = f32[1000] negate(x)" + PAIR.format("a", "a"),
    "the old is kept": "a = f32[1000] negate(x)" + PAIR.format("a", "x"),
    "reversed": "a = f32[1000] reverse(x), dimensions={0} b = f32[1000] reverse(y), dimensions={0}"
    + PAIR.format("a", "b"),
    "a slice of it": "u = f32[500] slice(x), slice={[0:500]} a = f32[1000] dynamic-update-slice(x, u, i)"
    " b = f32[1000] add(y, a)" + PAIR.format("a", "b"),
    "read after it is changed": "u = f32[5] constant({1, 2, 3, 4, 5}) a = f32[1000] dynamic-update-slice(x, u, i)"
    " b = f32[1000] add(x, a)" + PAIR.format("a", "b"),
    "a loop": "w = (s32[], f32[1000]) tuple(i, x) l = (s32[], f32[1000]) while(w), condition=below, body=step"
    " a = f32[1000] get-tuple-element(l), index=1 b = f32[1000] add(y, y)" + PAIR.format("a", "b"),
    "a loop and what it began with": "w = (s32[], f32[1000]) tuple(i, x)"
    " l = (s32[], f32[1000]) while(w), condition=below, body=step"
    " a = f32[1000] get-tuple-element(l), index=1 b = f32[1000] add(x, a)" + PAIR.format("a", "b"),
    "sorted": "s = f32[1000] sort(x), dimensions={0}, to_apply=less b = f32[1000] sort(y), dimensions={0}, to_apply=less"
    + PAIR.format("b", "s"),
}
LESS = "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }"
HEADER = "HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }"


def program(body, header=HEADER):
    return xl.parse(f"""{header}
{ADD} {LESS} {LOOP}
ENTRY e {{ x = f32[1000] parameter(0) y = f32[1000] parameter(1) i = s32[] parameter(2) {body} }}""")


def arguments():
    numbers = np.random.default_rng(1)
    return [*numbers.standard_normal((2, 1000)).astype(np.float32), np.int32(2)]


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("donated", [(), (0,), (1,), (0, 1)], ids=str)
def test_results_are_the_same(name, donated):
    module = program(BODIES[name])
    executable = xl.compile(module)
    given = arguments()
    results = executable(*given, donated=donated)
    for k, (got, want) in enumerate(zip(results, xl.evaluate(module, *arguments()), strict=True)):
        np.testing.assert_allclose(got, want, rtol=1e-6)
        assert np.shares_memory(got, given[k]) == (k in donated)
    for k, (after, before) in enumerate(zip(given, arguments(), strict=True)):
        assert k in donated or np.array_equal(after, before)


IN_PLACE = {
    "dynamic-update-slice": (
        "u = f32[5] constant({1, 2, 3, 4, 5}) a = f32[1000000] dynamic-update-slice(x, u, i)",
        1,
    ),
    "scatter": (
        "p = s32[3,1] constant({{5}, {7}, {5}}) u = f32[3] constant({1, 2, 3}) a = f32[1000000] scatter(x, p, u), "
        "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
        "to_apply=add",
        1,
    ),
    "adam": (
        """k1 = f32[] constant(0.9) b1 = f32[1000000] broadcast(k1), dimensions={}
        k2 = f32[] constant(0.1) b2 = f32[1000000] broadcast(k2), dimensions={}
        k3 = f32[] constant(0.999) b3 = f32[1000000] broadcast(k3), dimensions={}
        k4 = f32[] constant(0.001) b4 = f32[1000000] broadcast(k4), dimensions={}
        m1 = f32[1000000] multiply(m, b1) m2 = f32[1000000] multiply(g, b2) newm = f32[1000000] add(m1, m2)
        gg = f32[1000000] multiply(g, g) v1 = f32[1000000] multiply(v, b3) v2 = f32[1000000] multiply(gg, b4)
        newv = f32[1000000] add(v1, v2) r = f32[1000000] rsqrt(newv) s = f32[1000000] multiply(newm, r)
        d = f32[1000000] multiply(s, b4) a = f32[1000000] subtract(x, d)""",
        3,
    ),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_nothing_is_allocated(name):
    body, count = IN_PLACE[name]
    aliases = ", ".join(f"{{{k}}}: ({k}, {{}}, may-alias)" for k in range(count))
    results = ", ".join(("a", "newm", "newv")[:count])
    module = xl.parse(f"""HloModule m, input_output_alias={{ {aliases} }}
{ADD}
ENTRY e {{ x = f32[1000000] parameter(0) m = f32[1000000] parameter(1) v = f32[1000000] parameter(2)
  g = f32[1000000] parameter(3) i = s32[] parameter(4) {body}
  ROOT t = ({", ".join(["f32[1000000]"] * count)}) tuple({results}) }}""")
    executable = xl.compile(module)
    assert executable.memory.temporary_bytes == 0
    assert executable.memory.peak_bytes < 4 * 4_000_000 + 1000
    state = [np.ones(1_000_000, np.float32) for _ in range(4)]
    want = xl.evaluate(module, *state, np.int32(3))
    executable(*state, np.int32(3))  # which makes what is kept between runs
    tracemalloc.start()
    got = executable(*state, np.int32(3), donated=range(count))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    for k in range(count):
        assert np.shares_memory(got[k], state[k])
        np.testing.assert_allclose(got[k], want[k], rtol=1e-5)


def test_leaves_of_tuples():
    module = xl.parse("""HloModule m, input_output_alias={ {1,0}: (0, {1}, may-alias) }
ENTRY e { p = (f32[100], f32[100]) parameter(0) x = f32[100] get-tuple-element(p), index=0
  y = f32[100] get-tuple-element(p), index=1 a = f32[100] add(x, y) i = (f32[100]) tuple(a)
  ROOT t = (f32[100], (f32[100])) tuple(x, i) }""")
    x, y = np.ones(100, np.float32), np.ones(100, np.float32)
    first, (second,) = xl.compile(module)((x, y), donated=[0])
    assert np.shares_memory(second, y) and not np.shares_memory(first, x)
    assert np.array_equal(second, np.full(100, 2)) and np.array_equal(first, np.ones(100))


def test_donors_take_results_of_their_shape():
    module = program(BODIES["elementwise"], "HloModule m, buffer_donor={ (1, {}) }")
    x, y, i = arguments()
    a, b = xl.compile(module)(x, y, i, donated=(0, 1))
    assert np.shares_memory(a, y) and not np.shares_memory(b, x)
    np.testing.assert_array_equal(a, x * x)


def test_must_alias():
    module = program(BODIES["elementwise"], HEADER.replace("may", "must"))
    executable = xl.compile(module)
    x, y, i = arguments()
    with pytest.raises(EvaluationError, match="must-alias at compile time but not donated at runtime: parameter 1"):
        executable(x, y, i, donated=[0])
    a, _ = executable(x, y, i, donated=[0, 1])
    assert np.shares_memory(a, x)


def test_memory_that_cannot_be_written_to_is_copied():
    executable = xl.compile(program(BODIES["elementwise"]))
    x, y, i = arguments()
    x.flags.writeable = False
    a, b = executable(x, y, i, donated=[0, 1])
    assert not np.shares_memory(a, x) and np.shares_memory(b, y)
    np.testing.assert_array_equal(a, x * x)


def test_custom_calls_see_aligned_results():
    @xl.custom_call("donated_to")
    def call(out, x):
        assert out.ctypes.data % 64 == 0
        out[...] = x + 1

    module = xl.parse("""HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e { x = f32[1000] parameter(0) y = f32[1000] negate(x)
  ROOT c = f32[1000] custom-call(y), custom_call_target="donated_to" }""")
    executable = xl.compile(module)
    raw = np.zeros(1100, np.float32)
    for shift in range(4):
        x = raw[shift : shift + 1000]
        np.testing.assert_array_equal(executable(x, donated=[0]), np.ones(1000))
        x[...] = 0


def test_a_call_does_not_write_over_what_it_reads():
    """Its result takes the argument's memory, so what it reads must be elsewhere."""

    @xl.custom_call("donation_reversed")
    def donation_reversed(out, x):
        out[0][...] = 0
        out[0][...] = x[::-1]
        out[1][...] = np.count_nonzero(x)

    module = xl.parse("""HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
    ENTRY e {
      p = f32[512] parameter(0)
      n = f32[512] negate(p)
      c = (f32[512], s32[]) custom-call(n), custom_call_target="donation_reversed"
      a = f32[512] get-tuple-element(c), index=0
      b = s32[] get-tuple-element(c), index=1
      ROOT t = (f32[512], s32[]) tuple(a, b)
    }""")
    x = np.arange(512, dtype=np.float32)
    reverse, count = xl.compile(module)(x)
    assert count == 511 and np.array_equal(reverse, -x[::-1])
