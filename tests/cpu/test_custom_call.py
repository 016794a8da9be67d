"""Custom calls from native code: failures, order, threads. What each ABI does is in tests/calls."""

import gc
import re
import threading

import numpy as np
import pytest

import xloom as xl
from tests.cpu.call_programs import X, compare, loop
from xloom.calls import register_c, registry
from xloom.cpu.prepare import prepared

pytestmark = pytest.mark.usefixtures("forget")


# -- failures
def test_native_failure_ends_a_loop_with_the_interpreters_text(c):
    c("c_limit")
    text = loop(
        'y = f32[] custom-call(x), custom_call_target="c_limit", '
        'api_version=API_VERSION_STATUS_RETURNING, metadata={source_file="a.py" source_line=7}',
        dims="",
    )
    text += "ENTRY e { p = (s32[], f32[]) parameter(0) ROOT w = (s32[], f32[]) while(p), condition=c, body=b }"
    with pytest.raises(xl.CustomCallError, match=r"'c_limit' failed: limit reached \(at %y, a.py:7\)"):
        compare(text, (np.int32(0), np.float32(-2)))
    assert compare(text, (np.int32(6), np.float32(-2)))[1] == 1


def test_python_failure_in_a_nested_loop_and_branch_stops_everything():
    seen = []

    @xl.custom_call("t")
    def t(out, x):
        seen.append(float(x[0]))
        if x[0] >= 3:
            raise ValueError("three")
        out[...] = x + 1

    text = (
        "no { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }\n"
        'yes { p = f32[4] parameter(0) ROOT called = f32[4] custom-call(p), custom_call_target="t" }\n'
        + loop("k = pred[] constant(true) y = f32[4] conditional(k, x, x), true_computation=yes, false_computation=no")
        + """ENTRY e { p = (s32[], f32[4]) parameter(0) w = (s32[], f32[4]) while(p), condition=c, body=b
          x = f32[4] get-tuple-element(w), index=1 ROOT r = f32[4] custom-call(x), custom_call_target="t" }"""
    )
    executable = xl.compile(xl.parse(text))
    with pytest.raises(xl.CustomCallError, match="three") as caught:
        executable((np.int32(0), X))
    assert seen == [0, 1, 2, 3]
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.__cause__.__traceback__ is not None
    with pytest.raises(xl.CustomCallError, match=r"ValueError: three \(at %called"):
        compare(text, (np.int32(0), X))


def test_the_first_failure_counts_and_the_program_can_run_again():
    @xl.custom_call("t")
    def t(out, x):
        if x[0] < 0:
            raise ValueError(f"{x[0]}")
        out[...] = x

    executable = xl.compile(
        xl.parse("""ENTRY e { p = f32[4] parameter(0) q = f32[4] parameter(1)
      a = f32[4] custom-call(p), custom_call_target="t"
      b = f32[4] custom-call(q), custom_call_target="t" ROOT s = f32[4] add(a, b) }""")
    )
    for first, second, message in ((-1, -2, r"-1.0 \(at %a\)"), (1, -2, r"-2.0 \(at %b\)")):
        with pytest.raises(xl.CustomCallError, match=message):
            executable(np.full(4, first, np.float32), np.full(4, second, np.float32))
    assert np.array_equal(executable(X, X), 2 * X)


def test_base_exceptions_pass_through():
    @xl.custom_call("t")
    def t(out, x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        xl.compile(
            xl.parse('ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] custom-call(x), custom_call_target="t" }')
        )(X)


def test_a_failed_run_frees_its_memory():
    import weakref

    @xl.custom_call("t")
    def t(out, x):
        raise ValueError("no")

    executable = xl.compile(
        xl.parse('ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] custom-call(x), custom_call_target="t" }')
    )

    class Given(np.ndarray):
        pass

    given = X.copy().view(Given)
    gone = weakref.ref(given)
    gc.disable()
    try:
        with pytest.raises(xl.CustomCallError):
            executable(given)
        del given
        assert gone() is None
    finally:
        gc.enable()


def test_names_of_inlined_calls_are_the_programs():
    @xl.custom_call("t")
    def t(out, x):
        raise ValueError("no")

    with pytest.raises(xl.CustomCallError, match="at %inner"):
        compare(
            """f { p = f32[4] parameter(0) ROOT inner = f32[4] custom-call(p), custom_call_target="t" }
          ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] call(x), to_apply=f }""",
            X,
        )


def test_refused_when_it_is_compiled():
    with pytest.raises(xl.CustomCallError, match="no custom call 'absent' is registered"):
        xl.compile(
            xl.parse('ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] custom-call(x), custom_call_target="absent" }')
        )


@pytest.mark.parametrize(
    "version, error", [("STATUS_RETURNING", xl.CustomCallError), ("UNSPECIFIED", xl.UnsupportedError)]
)
def test_wrong_abi_is_refused_when_it_is_compiled(library, version, error):
    xl.calls.register_symbol("c_add_one", library, abi="original" if error is xl.CustomCallError else None)
    text = f"""ENTRY e {{ x = f32[4] parameter(0)
      ROOT y = f32[4] custom-call(x), custom_call_target="c_add_one", api_version=API_VERSION_{version} }}"""
    with pytest.raises(error) as expected:
        xl.evaluate(xl.parse(text), X)
    with pytest.raises(error, match=re.escape(str(expected.value))):
        xl.compile(xl.parse(text))


def test_a_sink_does_nothing_but_its_operand_is_computed():
    calls = []

    @xl.custom_call("t")
    def t(out, x):
        calls.append(1)

    compare(
        """ENTRY e { x = f32[4] parameter(0) y = f32[4] custom-call(x), custom_call_target="t"
      s = () custom-call(y), custom_call_target="dce_sink", custom_call_has_side_effect=true,
        api_version=API_VERSION_TYPED_FFI ROOT z = f32[4] add(x, x) }""",
        X,
    )
    assert len(calls) == 2


# -- effects
def test_effects_run_once_in_the_programs_order():
    seen = []

    @xl.custom_call("t")
    def t(out, x, *, opaque):
        seen.append(opaque.decode())

    def effect(name, backend_config):
        return (
            f'{name} = () custom-call(p), custom_call_target="t", custom_call_has_side_effect=true, '
            f'backend_config="{backend_config}"\n'
        )

    text = f"""f {{ p = f32[4] parameter(0) {effect("u", "in call")} ROOT q = f32[4] negate(p) }}
    ENTRY e {{ p = f32[4] parameter(0) {effect("a", 1)} {effect("b", 2)}
      v = f32[4] call(p), to_apply=f {effect("c", 3)} {effect("d", 3)}
      w = f32[4] call(v), to_apply=f unused = f32[4] call(v), to_apply=f {effect("z", "end")} ROOT r = f32[4] add(v, w) }}"""
    xl.compile(xl.parse(text))(X)
    order = seen.copy()
    xl.evaluate(xl.parse(text), X)
    assert order == seen[8:] and sorted(order) == ["1", "2", "3", "3", "end", *["in call"] * 3]


def test_control_dependencies_hold():
    seen = []

    @xl.custom_call("t")
    def t(out, x, *, opaque):
        seen.append(opaque.decode())
        out[...] = x

    text = """ENTRY e { p = f32[4] parameter(0)
      early = f32[4] custom-call(p), custom_call_target="t", backend_config="early"
      late = f32[4] custom-call(p), custom_call_target="t", backend_config="late", control-predecessors={early}
      ROOT r = f32[4] subtract(late, early) }"""
    xl.compile(xl.parse(text))(X)
    assert seen == ["early", "late"]


EVERYTHING = "(f32[2], token[], s4[3], bf16[2], c64[], pred[2], ())"


@pytest.mark.parametrize(
    "text",
    [
        "ENTRY e { x = f32[4] parameter(0) ROOT y = () custom-call(x), CALL }",
        "ENTRY e { x = f32[4] parameter(0) ROOT y = token[] custom-call(x), CALL }",
        "ENTRY e { x = f32[4] parameter(0) y = token[] custom-call(x), CALL ROOT z = f32[4] negate(x) }",
        f"ENTRY e {{ x = f32[4] parameter(0) ROOT y = {EVERYTHING} custom-call(x), CALL }}",
        f"""ENTRY e {{ x = f32[4] parameter(0) y = {EVERYTHING} custom-call(x), CALL
          z = bf16[2] get-tuple-element(y), index=3 ROOT n = bf16[2] negate(z) }}""",
        """f { p = f32[4] parameter(0) ROOT c = f32[4] custom-call(p), CALL }
        ENTRY e { x = f32[4] parameter(0) s = ((f32[4]), f32[4], u32[]) async-start(x), calls=f
          d = f32[4] async-done(s) a = f32[4] fusion(d), kind=kCustom, calls=f ROOT r = f32[4] call(a), to_apply=f }""",
        """c { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
          u = () custom-call(i), CALL ROOT l = pred[] compare(i, n), direction=LT }
        b { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
          j = s32[] add(i, o) x = f32[4] get-tuple-element(s), index=1 ROOT r = (s32[], f32[4]) tuple(j, x) }
        ENTRY e { x = f32[4] parameter(0) z = s32[] constant(0) a = (s32[], f32[4]) tuple(z, x)
          w = (s32[], f32[4]) while(a), condition=c, body=b ROOT n = f32[4] negate(x) }""",
    ],
)
def test_calls_with_effects_see_what_the_interpreter_shows(text):
    seen = []

    @xl.custom_call("t")
    def t(out, *inputs):
        seen.append(f"{out} {inputs}")

    compare(text.replace("CALL", 'custom_call_target="t", custom_call_has_side_effect=true'), X)
    middle = len(seen) // 2
    assert seen and seen[:middle] == seen[middle:]


# -- threads
def test_several_threads_at_once():
    @xl.custom_call("t")
    def t(out, x):
        if x[0] == 13:
            raise ValueError(threading.current_thread().name)
        out[...] = x + 1

    text = loop('y = f32[4] custom-call(x), custom_call_target="t"')
    text += "ENTRY e { p = (s32[], f32[4]) parameter(0) ROOT w = (s32[], f32[4]) while(p), condition=c, body=b }"
    executable = xl.compile(xl.parse(text))
    problems = []

    def run(start):
        name = threading.current_thread().name
        for _ in range(50):
            try:
                _, found = executable((np.int32(0), np.full(4, start, np.float32)))
                fits = start + 9 <= 13 and np.array_equal(found, np.full(4, start + 9))
            except xl.CustomCallError as error:
                fits = start + 9 > 13 and str(error.__cause__) == name
            if not fits:
                problems.append(start)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_a_callback_may_run_the_same_program():
    @xl.custom_call("t")
    def t(out, x):
        out[...] = x if x[0] <= 0 else executable(x - 1) + 1

    executable = xl.compile(
        xl.parse("""ENTRY e { x = f32[4] parameter(0) n = f32[4] abs(x)
          y = f32[4] custom-call(n), custom_call_target="t" ROOT z = f32[4] add(y, n) }""")
    )
    assert np.array_equal(executable(np.full(4, 3, np.float32)), np.full(4, 3 + 1 + 2 + 1 + 1 + 1, np.float32))


# -- built-in targets
def test_built_in_targets():
    compare(
        """ENTRY e { p = f32[2,3] parameter(0)
      a = f32[2,3] custom-call(p), custom_call_target="Sharding", sharding={replicated}
      b = f32[2,3]{0,1} custom-call(a), custom_call_target="LayoutConstraint"
      ROOT c = f32[2,3] custom-call(b), custom_call_target="annotate_device_placement", custom_call_has_side_effect=true
      }""",
        np.arange(6, dtype=np.float32).reshape(2, 3),
    )
    text = """ENTRY e { p = f32[2,9] parameter(0)
      ROOT t = (f32[2,3], s32[2,3]) custom-call(p), custom_call_target="TopK" }"""
    module = prepared(xl.parse(text))
    assert [i.opcode for i in module.entry] == ["parameter", "topk"]
    x = np.random.default_rng(0).integers(0, 5, (2, 9)).astype(np.float32)
    for expected, found in zip(xl.evaluate(xl.parse(text), x), xl.evaluate(module, x), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_registered_target_wins_over_a_built_in_one():
    @xl.custom_call("Sharding")
    def sharding(out, x):
        out[...] = -x

    text = 'ENTRY e { p = f32[4] parameter(0) ROOT a = f32[4] custom-call(p), custom_call_target="Sharding" }'
    assert np.array_equal(compare(text, X), -X)


def test_later_registrations_do_not_change_what_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))
    register_c("t", "void t(void* out, const void** in) { *(float*)out = 1; }")
    module = xl.parse('ENTRY e { p = f32[] parameter(0) ROOT a = f32[] custom-call(p), custom_call_target="t" }')
    first = xl.compile(module)
    register_c("t", "void t(void* out, const void** in) { *(float*)out = 2; }")
    registry.remove("t")
    gc.collect()
    assert first(np.float32(0)) == 1
