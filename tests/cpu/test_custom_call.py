"""Custom calls from native code: memory, order, failures, threads. What each ABI does is in tests/calls."""

import gc
import re
import threading

import numpy as np
import pytest

import xloom as xl
from xloom.calls import register_c, registry
from xloom.calls.c_source import compile_source
from xloom.cpu.prepare import prepared

X = np.arange(4, dtype=np.float32)
C_SOURCE = """
#include <stdint.h>
#include <xloom/custom_call.h>
void c_add_one(void* out, const void** in) {
  for (int i = 0; i < 4; ++i) ((float*)out)[i] = ((const float*)in[0])[i] + 1;
}
void c_limit(void* out, const void** in, XlaCustomCallStatus* s) {
  float x = *(const float*)in[0];
  *(float*)out = x + 1;
  if (x < 3) XlaCustomCallStatusSetSuccess(s);
  else XlaCustomCallStatusSetFailure(s, "limit reached", 13);
}
void c_opaque(void* out, const void** in, const char* opaque, size_t size, XlaCustomCallStatus* s) {
  XlaCustomCallStatusSetFailure(s, opaque, size);
}
void c_alignment(void* out, const void** in) {
  *(uint32_t*)out = (uint32_t)(((uintptr_t)out | (uintptr_t)in[0]) % 64 + (((const float*)in[0])[0] != 7));
}
void c_increment(void* out, const void** in) { *(float*)out += out == in[0] ? 1 : 100; }
void c_nested(void* out, const void** in) {
  void** outs = (void**)out;
  const void** tuple = (const void**)in[0];
  if (in[1] == NULL) *(float*)outs[0] = *(const float*)tuple[1];
  *(float*)((void**)outs[1])[0] = *(const float*)((const void**)tuple[0])[0];
}
"""


@pytest.fixture(autouse=True)
def forget():
    before = dict(registry._registered)
    yield
    registry._registered.clear()
    registry._registered.update(before)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XLOOM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        return compile_source(C_SOURCE)


@pytest.fixture
def c(library):
    return lambda *names: [xl.calls.register_symbol(name, library) for name in names]


def loop(body, *, count=9, dims="4", call='custom-call(x), custom_call_target="t"'):
    """`count` times x = call(x), as a while loop."""
    state = f"(s32[], f32[{dims}])"
    return f"""c {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant({count})
      ROOT l = pred[] compare(i, n), direction=LT }}
    b {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
      j = s32[] add(i, o) x = f32[{dims}] get-tuple-element(s), index=1
      {body} ROOT t = {state} tuple(j, y) }}"""


def compare(text, *arguments):
    """Runs compiled and interpreted; returns the compiled result, or raises its error, the same as the other."""
    module = xl.parse(text) if isinstance(text, str) else text
    try:
        expected = xl.evaluate(module, *arguments)
    except xl.XloomError as error:
        with pytest.raises(type(error)) as caught:
            xl.compile(module)(*arguments)
        assert str(caught.value) == str(error)
        raise caught.value from caught.value.__cause__
    found = xl.compile(module)(*arguments)
    for a, b in zip(flat(found), flat(expected), strict=True):
        np.testing.assert_array_equal(a, b)
    return found


def flat(value):
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, tuple) else [value]


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
    "version, error", [("STATUS_RETURNING", xl.CustomCallError), ("TYPED_FFI", xl.UnsupportedError)]
)
def test_wrong_abi_is_refused_when_it_is_compiled(library, version, error):
    xl.calls.register_symbol("c_add_one", library, abi="original" if error is xl.CustomCallError else None)
    text = f"""ENTRY e {{ x = f32[4] parameter(0)
      ROOT y = f32[4] custom-call(x), custom_call_target="c_add_one", api_version=API_VERSION_{version} }}"""
    with pytest.raises(error) as expected:
        xl.evaluate(xl.parse(text), X)
    with pytest.raises(error, match=re.escape(str(expected.value))):
        xl.compile(xl.parse(text))


# -- memory
def test_native_results_feed_native_code_in_a_loop(c):
    c("c_add_one")
    text = loop('z = f32[4] custom-call(x), custom_call_target="c_add_one" y = f32[4] multiply(z, z)', count=3)
    text += "ENTRY e { p = (s32[], f32[4]) parameter(0) ROOT w = (s32[], f32[4]) while(p), condition=c, body=b }"
    compare(text, (np.int32(0), X))


@pytest.mark.parametrize("offset", range(4))
@pytest.mark.parametrize("source", ["p", "k", "n"])
def test_everything_is_aligned(c, offset, source):
    c("c_alignment")
    values = ", ".join(["7"] * 100)
    executable = xl.compile(
        xl.parse(f"""ENTRY e {{ p = f32[100] parameter(0) k = f32[100] constant({{{values}}})
      n = f32[100] abs(p) o = f32[100] multiply(p, p)
      r = u32[] custom-call({source}), custom_call_target="c_alignment" ROOT t = (u32[], f32[100]) tuple(r, o) }}""")
    )
    p = np.full(104, 7, np.float32)[offset : offset + 100]
    assert executable(p)[0] == 0
    kept = executable(p)  # memory is reused: results at other addresses
    assert executable(p)[0] == kept[0] == 0


@pytest.mark.parametrize("size", [1, 1000])
def test_aliased_state_of_a_loop_is_changed_in_place(c, size):
    seen = set()

    @xl.custom_call("t")
    def t(out, x):
        seen.add(x.ctypes.data)
        assert np.shares_memory(out, x)
        out += 1

    c("c_increment")
    text = loop(
        f'z = f32[{size}] custom-call(x), custom_call_target="t", output_to_operand_aliasing={{{{}}: (0, {{}})}}\n'
        f'y = f32[{size}] custom-call(z), custom_call_target="c_increment", '
        "output_to_operand_aliasing={{}: (0, {})}".replace("{{}", "{{}"),
        dims=str(size),
    )
    text += f"""ENTRY e {{ p = (s32[], f32[{size}]) parameter(0)
      ROOT w = (s32[], f32[{size}]) while(p), condition=c, body=b }}"""
    x = np.zeros(size, np.float32)
    _, found = xl.compile(xl.parse(text))((np.int32(0), x))
    expected = np.full(size, 9, np.float32)
    expected[0] = 18
    assert np.array_equal(found, expected) and not x.any()
    if size == 1000:
        assert len(seen) == 1


def test_an_aliased_operand_that_is_needed_later_is_copied():
    @xl.custom_call("t")
    def t(out, x, same):
        out += 1
        assert not np.shares_memory(same, out)

    for use in ("x", "p"):
        compare(
            f"""ENTRY e {{ p = f32[1000] parameter(0) x = f32[1000] exponential(p)
          y = f32[1000] custom-call(x, x), custom_call_target="t", output_to_operand_aliasing={{{{}}: (0, {{}})}}
          ROOT s = f32[1000] subtract(y, {use}) }}""".replace("{{}", "{{}"),
            np.zeros(1000, np.float32),
        )


def test_nested_tuples_and_tokens_in_c(c):
    c("c_nested")
    compare(
        """ENTRY e { p = ((f32[1], f32[0]), f32[1]) parameter(0) k = token[] after-all()
      ROOT y = (f32[1], (f32[1], f32[0,3])) custom-call(p, k), custom_call_target="c_nested" }""".replace(
            "ROOT y =", "y ="
        )
        .replace('}"', "}")
        .replace(
            " }",
            """ a = f32[1] get-tuple-element(y), index=0
      b = (f32[1], f32[0,3]) get-tuple-element(y), index=1 d = f32[1] get-tuple-element(b), index=0
      ROOT r = f32[1] subtract(a, d) }""",
        ),
        ((np.ones(1, np.float32), np.ones(0, np.float32)), np.full(1, 5, np.float32)),
    )


@pytest.mark.parametrize(
    "dims, layout", [((3, 5), "1,0"), ((3, 5), "0,1"), ((4, 3, 2), "1,2,0"), ((1, 300), "0,1"), ((0, 3), "0,1")]
)
def test_layouts(dims, layout):
    seen = []

    @xl.custom_call("t")
    def t(out, x):
        assert not out.any()
        seen.append((x.strides, out.strides))
        out[...] = x * 2

    shape = f"f32[{','.join(map(str, dims))}]"
    row_major = ",".join(map(str, reversed(range(len(dims)))))
    x = np.random.default_rng(0).standard_normal(dims).astype(np.float32)
    compare(
        f"""ENTRY e {{ p = {shape} parameter(0) n = {shape} negate(p)
      y = {shape}{{{layout}}} custom-call(n), custom_call_target="t", operand_layout_constraints={{{shape}{{{layout}}}}}
      ROOT z = {shape}{{{row_major}}} negate(y) }}""",
        x,
    )
    assert seen[1][0] == seen[1][1] == seen[0][1]


def test_unused_results_are_scratch_memory():
    @xl.custom_call("t")
    def t(out, x):
        result, scratch = out
        scratch[...] = x[0]
        result[...] = scratch.sum()

    text = """ENTRY e { p = f32[4] parameter(0) n = f32[4] negate(p)
      y = (f32[], f32[1000]) custom-call(n), custom_call_target="t" r = f32[] get-tuple-element(y), index=0
      s = f32[4] broadcast(r), dimensions={} ROOT a = f32[4] add(n, s) }"""
    compare(text, X + 1)


def test_views_that_are_kept_keep_their_memory():
    kept = []

    @xl.custom_call("t")
    def t(out, x):
        kept.append(x)
        out[...] = x

    executable = xl.compile(
        xl.parse("""ENTRY e { p = f32[100000] parameter(0) n = f32[100000] negate(p)
      y = f32[100000] custom-call(n), custom_call_target="t" ROOT z = f32[100000] abs(y) }""")
    )
    for k in range(3):
        executable(np.full(100000, k, np.float32))
    assert [v[5] for v in kept] == [0, -1, -2]


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
      w = f32[4] call(v), to_apply=f {effect("z", "end")} ROOT r = f32[4] add(v, w) }}"""
    xl.compile(xl.parse(text))(X)
    order = seen.copy()
    xl.evaluate(xl.parse(text), X)
    assert order == seen[7:] and sorted(order) == ["1", "2", "3", "3", "end", "in call", "in call"]


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


def test_later_registrations_do_not_change_what_is_compiled(library):
    register_c("t", "void t(void* out, const void** in) { *(float*)out = 1; }")
    module = xl.parse('ENTRY e { p = f32[] parameter(0) ROOT a = f32[] custom-call(p), custom_call_target="t" }')
    first = xl.compile(module)
    register_c("t", "void t(void* out, const void** in) { *(float*)out = 2; }")
    registry.remove("t")
    gc.collect()
    assert first(np.float32(0)) == 1
