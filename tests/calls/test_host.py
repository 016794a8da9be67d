"""Custom calls on the host: every ABI from every source, by the interpreter and from native code."""

import ctypes
import re

import numpy as np
import pytest

import xloom as xl
from xloom.calls import register_c, register_pointer, register_symbol, registry
from xloom.calls.c_source import compile_source, load_source

VERSION = {
    "original": "API_VERSION_ORIGINAL",
    "status-returning": "API_VERSION_STATUS_RETURNING",
    "status-returning-unified": "API_VERSION_STATUS_RETURNING_UNIFIED",
}
C_SOURCE = """
#include <string.h>
#include <xloom/custom_call.h>
static void twice(void* out, const void** in) {
  for (int i = 0; i < 4; ++i) ((float*)out)[i] = 2 * ((const float*)in[0])[i];
}
void t_original(void* out, const void** in) { twice(out, in); }
void t_status(void* out, const void** in, XlaCustomCallStatus* s) {
  twice(out, in);
  XlaCustomCallStatusSetFailure(s, "first", 5);
  if (((const float*)in[0])[0] < 0) XlaCustomCallStatusSetFailure(s, "negative\\0hidden", 15);
  else XlaCustomCallStatusSetSuccess(s);
}
void t_unified(void* out, const void** in, const char* opaque, size_t size, XlaCustomCallStatus* s) {
  twice(out, in);
  if (size) XlaCustomCallStatusSetFailure(s, opaque, size);
}
void t_nested(void* out, const void** in) {
  void** outs = (void**)out;
  const void** tuple = (const void**)in[1];
  const void** inner = (const void**)tuple[1];
  ((float*)outs[0])[0] = ((const float*)in[0])[0] + ((const float*)tuple[0])[0];
  void** pair = (void**)outs[1];
  ((int*)pair[0])[0] = ((const int*)inner[0])[0];
  ((float*)pair[1])[1] += 1;
}
"""


def compiled(m, *arguments):
    return xl.compile(m)(*arguments)


@pytest.fixture(params=[xl.evaluate, compiled], ids=["interpreter", "compiled"])
def run(request):
    return request.param


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))


def module(version="original", opaque="", shape="f32[4]"):
    b = xl.Builder("m")
    x = b.parameter(xl.f32[4])
    b.custom_call("t", [x], xl.f32[4], api_version=VERSION[version], opaque=opaque, name="called")
    return b.build()


X = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize(
    "abi, symbol",
    [("original", "t_original"), ("status-returning", "t_status"), ("status-returning-unified", "t_unified")],
)
def test_c_in_each_abi(run, abi, symbol):
    register_c("t", C_SOURCE, symbol, abi=abi)
    assert np.array_equal(run(module(abi), X), 2 * X)


def test_failure_message_ends_at_its_length_or_nul(run):
    register_c("t", C_SOURCE, "t_status")
    with pytest.raises(xl.CustomCallError, match=r"'t' failed: negative \(at %called, .*test_host.py:\d+\)$"):
        run(module("status-returning"), X - 1)


def test_opaque_bytes_arrive_whole(run):
    register_c("t", C_SOURCE, "t_unified")
    with pytest.raises(xl.CustomCallError, match=re.escape('quo"tes\nand {braces}')):
        run(module("status-returning-unified", 'quo"tes\nand {braces}'), X)
    seen = []

    @xl.custom_call("t")
    def keep(out, x, *, opaque):
        seen.append(opaque)

    raw = bytes(range(256))
    again = xl.parse(module("original", raw.decode("utf-8", "surrogateescape")).to_text())
    run(again, X)
    assert seen == [raw]


def test_wrong_abi_is_refused_with_the_right_one(run):
    register_c("t", C_SOURCE, "t_status", abi="status-returning")
    with pytest.raises(xl.CustomCallError, match="api_version=API_VERSION_STATUS_RETURNING"):
        run(module("original"), X)


def test_nested_tuples_and_scratch_in_c(run):
    register_c("t", C_SOURCE, "t_nested")
    m = xl.parse("""ENTRY e { a = f32[1] parameter(0) t = (f32[1], (s32[1], f32[2])) parameter(1)
      ROOT c = (f32[1], (s32[1], f32[2])) custom-call(a, t), custom_call_target="t",
        output_to_operand_aliasing={{1,1}: (1, {1,1})} }""")
    one = np.ones(1, np.float32)
    kept = np.array([5, 6], np.float32)
    first, (number, aliased) = run(m, one, (one, (np.array([7], np.int32), kept)))
    assert first == 2 and number == 7
    assert np.array_equal(aliased, [5, 7]) and np.array_equal(kept, [5, 6])


def test_python_views(run):
    @xl.custom_call("t")
    def check(out, x):
        assert not x.flags.writeable and out.ctypes.data % 64 == 0
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 1
        out[:] = 2 * x

    assert np.array_equal(run(module(), X), 2 * X)


def test_python_exception_is_the_cause(run):
    @xl.custom_call("t")
    def fail(out, x):
        raise RuntimeError("boom")

    with pytest.raises(xl.CustomCallError, match="'t' failed: RuntimeError: boom") as caught:
        run(module(), X)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_python_must_not_return_the_result(run):
    @xl.custom_call("t")
    def wrong(out, x):
        return 2 * x

    with pytest.raises(xl.CustomCallError, match="returned a ndarray"):
        run(module(), X)


def test_layouts_are_memory_order(run):
    seen = []

    @xl.custom_call("t")
    def look(out, x):
        seen.append((x.strides, out.strides))
        out[...] = x

    m = xl.parse("""ENTRY e { x = f32[2,3]{0,1} parameter(0)
      ROOT c = f32[2,3]{1,0} custom-call(x), custom_call_target="t" }""")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(run(m, x), x)
    assert seen == [((4, 8), (12, 4))]


def test_pointers_of_each_kind(run):
    library = ctypes.CDLL(str(compile_source(C_SOURCE)))
    function = library.t_original
    address = ctypes.cast(function, ctypes.c_void_p).value
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    cffi = pytest.importorskip("cffi").FFI()
    pointers = [function, address, new(address, b"any name", None), cffi.cast("void(*)(void*, void**)", address)]
    for pointer in pointers:
        register_pointer("t", pointer)
        assert np.array_equal(run(module(), X), 2 * X)
    with pytest.raises(xl.CustomCallError, match="is not a native function"):
        register_pointer("t", "text")


def test_numba_cfunc(run):
    numba = pytest.importorskip("numba")
    types = numba.types
    signature = types.void(types.voidptr, types.CPointer(types.CPointer(types.float32)))

    @numba.cfunc(signature)
    def kernel(out, args):
        x = numba.carray(args[0], 4)
        y = numba.carray(out, 4, numba.float32)
        for k in range(4):
            y[k] = 2 * x[k]

    register_pointer("t", kernel)
    assert np.array_equal(run(module(), X), 2 * X)


def test_library_by_symbol_and_by_registration(run, tmp_path):
    register_symbol("t", compile_source(C_SOURCE), "t_original")
    assert np.array_equal(run(module(), X), 2 * X)
    with pytest.raises(xl.CustomCallError, match="has no symbol 'nothing'"):
        register_symbol("t", compile_source(C_SOURCE), "nothing")
    for suffix in (".c", ".cc"):
        source = tmp_path / f"kernel{suffix}"
        source.write_text(
            "#include <xloom/custom_call.h>\nvoid t(void* out, const void** in) { ((float*)out)[3] = 9; }\n"
            'XLA_REGISTER_CUSTOM_CALL_TARGET(t, "Host");\n'
        )
        assert [(r.name, r.platform) for r in load_source(source)] == [("t", "Host")]
        assert run(module(), X)[3] == 9


@pytest.mark.parametrize("suffix", [".c", ".cc"])
def test_the_macro_knows_the_abi_by_pointers_to_elements(tmp_path, suffix):
    outs, ins = ("void", "float", "int32_t", "size_t"), ("void", "const void", "{}", "const {}")
    forms = {
        "original": "",
        "status-returning": ", XlaCustomCallStatus* s",
        "status-returning-unified": ", const char* o, size_t n, XlaCustomCallStatus* s",
    }
    pairs = dict.fromkeys((out, form.format(out)) for out in outs for form in ins)
    pairs |= dict.fromkeys([("void", "const float"), *([("float", "const int8_t")] if suffix == ".cc" else [])])
    expected = {f"{abi} {k}": abi for k, _ in enumerate(pairs) for abi in forms}
    source = tmp_path / f"kernels{suffix}"
    source.write_text(
        "#include <xloom/custom_call.h>\n"
        + "".join(
            f"void {abi.replace('-', '_')}{k}({out}* out, {operand}** in{rest}) {{}}\n"
            f'XLA_CPU_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM("{abi} {k}", {abi.replace("-", "_")}{k});\n'
            for k, (out, operand) in enumerate(pairs)
            for abi, rest in forms.items()
        )
    )
    found = load_source(source)
    try:
        assert {r.name: r.abi for r in found} == expected
    finally:
        for registration in found:
            registry.remove(registration.name)


def test_compile_errors_show_the_source_line(tmp_path):
    source = tmp_path / "bad.c"
    source.write_text("int f( { }\n")
    with pytest.raises(xl.CustomCallError, match=r"bad\.c:1"):
        load_source(source)


def test_no_compiler_is_said(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(xl.CustomCallError, match="no C compiler"):
        compile_source("int x;")


def test_unregistered_targets_have_hints():
    @xl.custom_call("t_kernel")
    def kernel(out, x): ...

    with pytest.raises(xl.CustomCallError, match="t_kernel"):
        registry.lookup("t_kernal")
    with pytest.raises(xl.CustomCallError, match="registered for Host"):
        registry.lookup("t_kernel", "CUDA")
    assert [e.where.split(",")[0] for e in registry.unregistered(module())] == ["%called"]


def test_failure_inside_a_loop_stops_it(run):
    calls = []

    @xl.custom_call("t")
    def count(out, x):
        calls.append(1)
        if len(calls) == 3:
            raise ValueError("third")

    m = xl.parse("""c { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(9)
      ROOT l = pred[] compare(i, n), direction=LT }
    b { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
      j = s32[] add(i, o) x = f32[4] get-tuple-element(s), index=1
      y = f32[4] custom-call(x), custom_call_target="t" ROOT t = (s32[], f32[4]) tuple(j, y) }
    ENTRY e { p = (s32[], f32[4]) parameter(0) ROOT w = (s32[], f32[4]) while(p), condition=c, body=b }""")
    with pytest.raises(xl.CustomCallError, match="third"):
        run(m, (np.zeros((), np.int32), X))
    assert len(calls) == 3


def test_an_aliased_operand_is_the_output(run):
    seen = []

    @xl.custom_call("t")
    def t(out, x):
        seen.append(np.shares_memory(x, out))
        out += 1

    text = """HloModule m
    ENTRY e {
      p = f32[4] parameter(0)
      ROOT c = f32[4] custom-call(p), custom_call_target="t", output_to_operand_aliasing={{}: (0, {})}
    }"""
    given = X.copy()
    assert np.array_equal(run(xl.parse(text), given), X + 1)
    assert seen == [True]
    assert np.array_equal(given, X)


def test_source_for_xla_compiles_and_its_status_symbols_are_bound(run, tmp_path):
    source = tmp_path / "theirs.cc"
    source.write_text("""
    #include "xla/service/custom_call_status.h"
    #include "xla/service/custom_call_target_registry.h"
    static void f(void* out, const void** in, XlaCustomCallStatus* s) { XlaCustomCallStatusSetFailure(s, "no", 2); }
    XLA_CPU_REGISTER_CUSTOM_CALL_TARGET_WITH_SYM("t", f);
    """)
    load_source(source)
    with pytest.raises(xl.CustomCallError, match="failed: no"):
        run(module("status-returning"), X)
    external = """
    typedef struct XlaCustomCallStatus_ XlaCustomCallStatus;
    void XlaCustomCallStatusSetFailure(XlaCustomCallStatus*, const char*, unsigned long);
    void t(void* out, const void** in, XlaCustomCallStatus* s) { XlaCustomCallStatusSetFailure(s, "never", 5); }
    """
    register_c("t", external, abi="status-returning")
    with pytest.raises(xl.CustomCallError, match="failed: never"):
        run(module("status-returning"), X)


def test_true_is_no_pointer():
    with pytest.raises(xl.CustomCallError, match="not a native function"):
        register_pointer("t", True)
