"""When calls run: those with effects once each and in order, others as the program needs them, all in a schedule's order."""

import numpy as np
import pytest

import xloom as xl
from xloom.sim import Simulator

X = np.arange(4, dtype=np.float32)


def compiled(m, *arguments):
    return xl.compile(m)(*arguments)


def on_device(m, *arguments):
    return Simulator(memory_bytes=1 << 20).run(m, *arguments)


@pytest.fixture(params=[xl.evaluate, compiled, on_device], ids=["interpreter", "compiled", "device"])
def run(request):
    return request.param


@pytest.fixture
def seen():
    """What `t` has been called with: the first element of its operand."""
    numbers: list[float] = []

    def t(out, x):
        numbers.append(float(x[0]))
        if out.ndim:
            out[...] = x

    for platform in ("Host", "sim"):
        xl.custom_call("t", platform=platform)(t)
    return numbers


EFFECT = 'custom_call_target="t", custom_call_has_side_effect=true'


def test_effects_are_not_removed_merged_or_reordered(run, seen):
    m = xl.parse(f"""ENTRY e {{ x = f32[4] parameter(0) one = f32[] constant(1) ones = f32[4] broadcast(one), dimensions={{}}
      y = f32[4] add(x, ones) z = f32[4] add(y, ones)
      a = f32[4] custom-call(z), {EFFECT} b = f32[4] custom-call(x), {EFFECT} c = f32[4] custom-call(y), {EFFECT}
      d = f32[4] custom-call(x), {EFFECT}
      ROOT r = f32[4] multiply(x, x) }}""")
    for _ in range(2):
        seen.clear()
        assert np.array_equal(run(m, X), X * X)
        assert seen == [2, 0, 1, 0]


def test_effects_stay_in_their_loop_and_branch(run, seen):
    m = xl.parse(f"""c {{ s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
      ROOT l = pred[] compare(i, n), direction=LT }}
    b {{ s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
      j = s32[] add(i, o) x = f32[4] get-tuple-element(s), index=1
      y = f32[] custom-call(x), {EFFECT} ROOT t = (s32[], f32[4]) tuple(j, x) }}
    yes {{ x = f32[4] parameter(0) y = f32[] custom-call(x), {EFFECT} ROOT r = f32[4] copy(x) }}
    no {{ x = f32[4] parameter(0) ROOT r = f32[4] copy(x) }}
    ENTRY e {{ x = f32[4] parameter(0) take = pred[] parameter(1) zero = s32[] constant(0)
      p = (s32[], f32[4]) tuple(zero, x) w = (s32[], f32[4]) while(p), condition=c, body=b
      f = f32[4] get-tuple-element(w), index=1
      ROOT r = f32[4] conditional(take, f, f), true_computation=yes, false_computation=no }}""")
    run(m, X + 5, np.bool_(False))
    assert seen == [5, 5, 5]
    run(m, X + 6, np.bool_(True))
    assert seen == [5, 5, 5, 6, 6, 6, 6]


def test_calls_without_effects_that_nothing_needs_are_not_compiled(seen):
    m = xl.parse("""ENTRY e { x = f32[4] parameter(0) unused = f32[4] custom-call(x), custom_call_target="t"
      ROOT r = f32[4] negate(x) }""")
    assert np.array_equal(compiled(m, X), -X)
    assert seen == []


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_schedule_is_the_order_of_calls(run, seen, first):
    calls = {
        "a": 'a = f32[4] custom-call(x), custom_call_target="t"',
        "b": 'b = f32[4] custom-call(y), custom_call_target="t"',
    }
    second = "b" if first == "a" else "a"
    m = xl.parse(f"""HloModule m, is_scheduled=true
    ENTRY e {{ x = f32[4] parameter(0) y = f32[4] parameter(1) {calls[first]} {calls[second]}
      ROOT r = f32[4] add(a, b) }}""")
    assert np.array_equal(run(m, X, X + 7), 2 * X + 7)
    assert seen == ([0, 7] if first == "a" else [7, 0])


def test_after_a_failure_nothing_runs_and_nothing_is_given(run, seen):
    def fails(out, x):
        out[...] = 1
        raise ValueError("on purpose")

    for platform in ("Host", "sim"):
        xl.custom_call("fails", platform=platform)(fails)
    m = xl.parse(f"""ENTRY e {{ x = f32[4] parameter(0) a = f32[4] custom-call(x), custom_call_target="fails"
      b = f32[] custom-call(a), {EFFECT} n = f32[4] negate(x) ROOT r = (f32[4], f32[4]) tuple(n, a) }}""")
    given = X.copy()
    with pytest.raises(xl.CustomCallError, match="on purpose"):
        run(m, given)
    assert seen == [] and np.array_equal(given, X)


def test_near_names_and_other_platforms_are_told_at_compile_time():
    xl.custom_call("my_kernel")(lambda out, x: None)
    xl.custom_call("other", platform="sim")(lambda out, x: None)
    text = 'ENTRY e { x = f32[4] parameter(0) ROOT c = f32[4] custom-call(x), custom_call_target="NAME" }'
    with pytest.raises(xl.CustomCallError, match="did you mean 'my_kernel'"):
        xl.compile(xl.parse(text.replace("NAME", "my_kernal")))
    with pytest.raises(xl.CustomCallError, match="it is registered for sim"):
        xl.compile(xl.parse(text.replace("NAME", "other")))
