"""Typed calls: C++ handlers compiled from XLA's headers, by the interpreter and from native code."""

import ctypes
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xloom as xl
from xloom.calls import c_compiler, ffi_user_data, register_c, register_ffi_type, register_pointer, registry
from xloom.calls.typed_ffi import api, c_api
from xloom.calls.typed_ffi.attributes import parse_attributes
from xloom.sim import Simulator
from xloom.thread_count import thread_count

X = np.arange(4, dtype=np.float32)
BUILT, READY, BEGUN, GIVEN = range(4)


def compiled(m, *arguments):
    return xl.compile(m)(*arguments)


class Device(Simulator):
    platform = "Host"


def on_device(m, *arguments):
    return Device(memory_bytes=1 << 20).run(m, *arguments)


@pytest.fixture(params=[xl.evaluate, compiled, on_device], ids=["interpreter", "compiled", "device"])
def run(request):
    return request.param


def call(operands, result, attributes=""):
    names = [f"x{k}" for k in range(len(operands))]
    parameters = "\n".join(f"{n} = {s} parameter({k})" for k, (n, s) in enumerate(zip(names, operands, strict=True)))
    config = f", backend_config={attributes}" if attributes else ""
    return xl.parse(f"""ENTRY e {{ {parameters}
      ROOT called = {result} custom-call({", ".join(names)}), custom_call_target="t",
        api_version=API_VERSION_TYPED_FFI{config} }}""")


def text_of(array):
    return bytes(array).rstrip(b"\0").decode()


# -- arrays
def test_arguments_results_and_an_attribute(run, library):
    register_pointer("t", library.axpy, abi="typed-ffi")
    m = call(["f32[4]", "f32[4]"], "f32[4]", "{a = 2.5 : f32}")
    assert np.array_equal(run(m, X, X + 1), 2.5 * X + X + 1)


def test_source_with_include_dirs(run, include, tmp_path, monkeypatch):
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))
    source = """
    #include "xla/ffi/api/ffi.h"
    static xla::ffi::Error F(xla::ffi::BufferR0<xla::ffi::S32> x, xla::ffi::ResultBufferR0<xla::ffi::S32> y) {
      *y->typed_data() = *x.typed_data() + 1;
      return xla::ffi::Error::Success();
    }
    XLA_FFI_DEFINE_HANDLER_SYMBOL(t, F, xla::ffi::Ffi::Bind().Arg<xla::ffi::BufferR0<xla::ffi::S32>>()
                                            .Ret<xla::ffi::BufferR0<xla::ffi::S32>>());
    """
    register_c("t", source, language="c++", include_dirs=include, abi="typed-ffi")
    assert run(call(["s32[]"], "s32[]"), np.int32(4)) == 5


def test_remaining_arguments_and_results_are_the_leaves_in_order(run, library):
    register_pointer("t", library.look, abi="typed-ffi")
    m = call(["f32[4]", "(bf16[2,3], (c128[], token[]), pred[1])"], "(u8[200], (s4[5], f8e5m2[0]))")
    token = xl.evaluate(xl.parse("ENTRY e { ROOT t = token[] after-all() }"))
    given = (np.zeros((2, 3), xl.bf16.numpy), (np.complex128(0), token), np.zeros(1, bool))
    said = text_of(run(m, X, given)[0])
    assert said == "a11[4,] a16[2,3,] a18[] a17[] a1[1,] r6[200,] r21[5,] r19[0,] "


def test_arrays_are_aligned_wherever_the_callers_lie(run, library):
    register_pointer("t", library.look, abi="typed-ffi")
    raw = np.zeros(10, np.float32)
    start = next(k for k in range(5) if raw[k:].ctypes.data % 64)
    said = text_of(run(call(["f32[5]"], "u8[99]"), raw[start : start + 5]))
    assert said == "a11[5,] r6[99,] "


@pytest.mark.parametrize("second, both", [(False, False), (True, False), (False, True), (True, True)])
def test_optional_arguments_and_results(run, library, second, both):
    register_pointer("t", library.optional, abi="typed-ffi")
    m = call(["f32[4]"] * (1 + second), "(f32[4], s32[1])" if both else "f32[4]")
    found = run(m, *[X] * (1 + second))
    assert np.array_equal(found[0] if both else found, X + (X if second else 100))
    assert not both or found[1] == 7


# -- attributes
def test_scalars_of_each_type(run, library):
    register_pointer("t", library.scalars, abi="typed-ffi")
    attributes = """{u64 = 18446744073709551615 : ui64, pred = true, s8 = -128 : i8, s16 = -2 : i16, s32 = -3 : i32,
      s64 = -9223372036854775808 : i64, u8 = 255 : ui8, u16 = 65535 : ui16, u32 = 4294967295 : ui32,
      f32 = 1.500000e+00 : f32, f64 = 0x7FF0000000000000 : f64, mode = 2 : ui8}"""
    said = text_of(run(call([], "u8[200]", attributes)))
    assert said == "1 -128 -2 -3 -9223372036854775808 255 65535 4294967295 18446744073709551615 1.5 inf 2"


def test_strings_arrays_dictionaries_and_pointers(run, library):
    register_pointer("t", library.others, abi="typed-ffi")
    pointed = ctypes.c_int32(42)
    attributes = f"""{{name = "a \\22quoted\\22\\0A\\\\line", s8 = array<i8: -1, 2>, s32 = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>,
      u64 = dense<7> : tensor<3xui64>, f32 = dense<"0x0000803F00000040"> : tensor<2xf32>, f64 = array<f64>,
      options = {{kind = "deep", depth = 3 : i64, inner = {{x = 2.5 : f64}}}}, range = {{last = 9 : i64, first = 1 : i64}},
      pointer = {ctypes.addressof(pointed)} : i64}}"""
    said = text_of(run(call([], "u8[200]", attributes)))
    assert said == 'a "quoted"\n\\line;-1,2,;1,2,3,4,;7,7,7,;1,2,;;33deep;2.5;1..9;42'


def test_attributes_survive_being_printed(library):
    register_pointer("t", library.axpy, abi="typed-ffi")
    m = call(["f32[4]", "f32[4]"], "f32[4]", "{a = 2.5 : f32}")
    for again in (xl.parse(m.to_text()), xl.from_proto(m.to_proto())):
        assert np.array_equal(xl.evaluate(again, X, X), 3.5 * X)


def test_attribute_values():
    found: dict[str, Any] = parse_attributes(
        """{"odd name" = true, h = 0x7E00 : f16, b = 2.000000e+00 : bf16, c = dense<(1.0,-2.0)> : tensor<1xcomplex<f32>>,
        e = dense<> : tensor<0xf32>, m = dense<[true, false]> : tensor<2xi1>, d = {}, q = 1.0 : f8E4M3FN, n = 5}"""
    )
    assert found["odd name"].dtype == bool and found["odd name"]
    assert np.isnan(found["h"]) and found["h"].dtype == np.float16
    assert found["b"].dtype == xl.bf16.numpy and found["b"] == 2
    assert found["c"].tolist() == [1 - 2j]
    assert found["e"].shape == (0,)
    assert found["m"].tolist() == [True, False]
    assert found["d"] == {}
    assert found["q"].dtype == xl.f8e4m3fn.numpy
    assert found["n"].dtype == np.int64


@pytest.mark.parametrize(
    "text, message",
    [
        ("{a = [1, 2]}", "Unsupported attribute type for attribute: a"),
        ("{a = unit}", "Unsupported attribute type for attribute: a"),
        ("{a = 1 : index}", "expected an element type"),
        ("{a = 300 : i8}", "expected numbers of type s8"),
        ("{a = 1.5 : i8}", "expected numbers of type s8"),
        ("{a = 1 : i7}", "no elements of type i7"),
        ("{a = dense<[1, 2]> : tensor<3xi32>}", "expected 3 elements, found 2"),
        ("{a 1}", "expected '='"),
        ("opaque text", "expected '{'"),
    ],
)
def test_what_is_no_attribute_is_refused_with_the_place(run, library, text, message):
    with pytest.raises(xl.ParseError, match=message):
        parse_attributes(text)
    register_pointer("t", library.look, abi="typed-ffi")
    with pytest.raises(xl.ParseError, match="at %called"):
        run(call([], "u8[9]", f'"{text}"'))


# -- stages and state
def stages(library):
    register_pointer(
        "t",
        {
            "instantiate": library.build,
            "prepare": library.prepare,
            "initialize": library.begin,
            "execute": library.count,
        },
    )


def test_state_of_each_stage_is_made_kept_and_destroyed(library):
    stages(library)
    before = [library.destroyed(k) for k in range(3)]
    executable = xl.compile(call([], "s64[2]", "{start = 5 : i64}"))
    other = xl.compile(call([], "s64[2]", "{start = 50 : i64}"))
    assert executable().tolist() == [5, 60]
    assert executable().tolist() == [6, 70]
    assert other().tolist() == [50, 510]
    assert [library.destroyed(k) - n for k, n in enumerate(before)] == [0, 3, 3]
    del executable, other
    assert [library.destroyed(k) - n for k, n in enumerate(before)] == [2, 3, 3]


def test_a_loop_is_prepared_once(run, library):
    stages(library)
    m = xl.parse("""c { s = (s32[], s64[2]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
      ROOT l = pred[] compare(i, n), direction=LT }
    b { s = (s32[], s64[2]) parameter(0) i = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
      j = s32[] add(i, o) y = s64[2] custom-call(), custom_call_target="t", api_version=API_VERSION_TYPED_FFI,
        backend_config={start = 1 : i64} ROOT t = (s32[], s64[2]) tuple(j, y) }
    ENTRY e { p = (s32[], s64[2]) parameter(0) ROOT w = (s32[], s64[2]) while(p), condition=c, body=b }""")
    assert run(m, (np.int32(0), np.zeros(2, np.int64)))[1].tolist() == [3, 22]


def test_refusal_to_instantiate_is_seen_when_it_is_compiled(library):
    stages(library)
    with pytest.raises(xl.CustomCallError, match=r"'t' failed: INVALID_ARGUMENT: start is negative \(at %called"):
        xl.compile(call([], "s64[2]", "{start = -1 : i64}"))


def test_state_that_nobody_made(run, library):
    register_pointer("t", library.count, abi="typed-ffi")
    with pytest.raises(xl.CustomCallError, match=r"Failed to get state from execution context: .*State is not set"):
        run(call([], "s64[2]"))


def test_stages_that_do_not_exist(library):
    with pytest.raises(xl.CustomCallError, match="no stage 'run'"):
        register_pointer("t", {"execute": library.count, "run": library.build})
    with pytest.raises(xl.CustomCallError, match="FFI handler for t must provide an execute implementation"):
        register_pointer("t", {"instantiate": library.build})


# -- context
def test_run_device_threads_and_memory(library):
    register_pointer("t", library.surroundings, abi="typed-ffi")
    executable = xl.compile(call([], "s64[5]"))
    first, second = executable(), executable()
    assert first[0] != second[0]
    assert first[1:].tolist() == [0, thread_count(), 1, 8]
    assert xl.evaluate(call([], "s64[5]"))[1:].tolist() == first[1:].tolist()


@pytest.mark.parametrize("name", ["State_Get", "ThreadPool_Schedule", "ThreadPool_NumThreads"])
def test_what_handlers_ask_for_at_each_call_is_native(library, name):
    register_pointer("t", library.surroundings, abi="typed-ffi")
    xl.compile(call([], "s64[5]"))
    assert getattr(api.api(), name) != ctypes.cast(api._functions[name], ctypes.c_void_p).value


def test_user_data(run, library):
    register_pointer("t", library.user_value, abi="typed-ffi")
    number = ctypes.c_int64.from_address(library.type_id(GIVEN)).value
    with ffi_user_data({number: library.new_given(17)}):
        assert run(call([], "s64[1]")) == 17
    with pytest.raises(xl.CustomCallError, match=r"There is no user data of type test\.Given"):
        run(call([], "s64[1]"))


def test_only_devices_have_a_stream(run, library):
    register_pointer("t", library.stream, abi="typed-ffi")
    if run is on_device:
        assert run(call([], "u64[1]")) > 0
        return
    with pytest.raises(xl.CustomCallError, match="Failed to get platform stream: There is no stream on Host"):
        run(call([], "u64[1]"))


def test_type_numbers_are_one_to_one(library):
    number = ctypes.c_int64(0)
    assert register_ffi_type("test.new", {"type_id": number}) == number.value != 0
    assert register_ffi_type("test.new", {"type_id": number}) == number.value
    with pytest.raises(xl.CustomCallError, match="registered with type id"):
        register_ffi_type("test.new", {"type_id": ctypes.c_int64(12345)})
    with pytest.raises(xl.CustomCallError, match="is of another type"):
        register_ffi_type("test.other", {"type_id": number})


def test_futures_are_waited_for(run, library):
    register_pointer("t", library.later, abi="typed-ffi")
    m = call(["f32[4]"], "f32[4]")
    assert np.array_equal(run(m, X), 2 * X)
    with pytest.raises(xl.CustomCallError, match="'t' failed: ABORTED: too late"):
        run(m, X - 1)


# -- what does not fit
@pytest.mark.parametrize(
    "operands, result, attributes, message",
    [
        (["f32[4]"], "f32[4]", "{a = 1.0 : f32}", "Wrong number of arguments: expected 2 but got 1"),
        (["f32[4]"] * 2, "(f32[4], f32[4])", "{a = 1.0 : f32}", "Wrong number of results: expected 1 but got 2"),
        (["f32[2,2]", "f32[4]"], "f32[4]", "{a = 1.0 : f32}", "Wrong buffer rank: expected 1 but got 2"),
        (["s32[4]", "f32[4]"], "f32[4]", "{a = 1.0 : f32}", "Wrong buffer dtype: expected F32 but got S32"),
        (["f32[4]"] * 2, "f32[4]", "", "Wrong number of attributes: expected 1 but got 0"),
        (["f32[4]"] * 2, "f32[4]", "{b = 1.0 : f32}", "Attribute name mismatch"),
        (["f32[4]"] * 2, "f32[4]", "{a = 1.0 : f64}", "Wrong scalar data type: expected F32 but got F64"),
    ],
)
def test_a_call_that_does_not_fit_its_handler(run, library, operands, result, attributes, message):
    register_pointer("t", library.axpy, abi="typed-ffi")
    m = call(operands, result, attributes)
    given = [np.zeros(p.shape.dims, p.shape.dtype.numpy) for p in m.entry.parameters]
    with pytest.raises(xl.CustomCallError, match=f"(?s)'t' failed: INVALID_ARGUMENT: .*{message}") as caught:
        run(m, *given)
    assert caught.value.where.startswith("%called")


def test_failure_in_a_loop_stops_it(run, library):
    register_pointer("t", library.below, abi="typed-ffi")
    m = xl.parse("""c { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(9)
      ROOT l = pred[] compare(i, n), direction=LT }
    b { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 o = s32[] constant(1)
      j = s32[] add(i, o) x = f32[4] get-tuple-element(s), index=1
      y = f32[4] custom-call(x), custom_call_target="t", api_version=API_VERSION_TYPED_FFI
      ROOT t = (s32[], f32[4]) tuple(j, y) }
    ENTRY e { p = (s32[], f32[4]) parameter(0) ROOT w = (s32[], f32[4]) while(p), condition=c, body=b }""")
    assert run(m, (np.int32(7), X))[1].tolist() == [2, 3, 4, 5]
    with pytest.raises(xl.CustomCallError, match=r"'t' failed: OUT_OF_RANGE: three is too much \(at %y"):
        run(m, (np.int32(0), X))


def test_handlers_of_other_versions_and_other_abis(run, library):
    register_pointer("t", library.future_version)
    with pytest.raises(xl.CustomCallError, match=r"version 0\.99 of the FFI, which is not compatible with 0\.3"):
        run(call([], "f32[1]"))
    register_pointer("t", library.axpy, abi="typed-ffi")
    m = xl.parse('ENTRY e { x = f32[4] parameter(0) ROOT c = f32[4] custom-call(x), custom_call_target="t" }')
    with pytest.raises(xl.CustomCallError, match="api_version=API_VERSION_TYPED_FFI"):
        run(m, X)


def test_nobody_is_registered(run):
    with pytest.raises(xl.CustomCallError, match="No FFI handler registered for t on a platform Host"):
        run(call([], "f32[1]"))


def test_two_threads_in_one_program(library):
    register_pointer("t", library.later, abi="typed-ffi")
    executable = xl.compile(call(["f32[4]"], "f32[4]"))
    with ThreadPoolExecutor(4) as threads:
        for k, y in enumerate(threads.map(executable, [X + k for k in range(12)])):
            assert np.array_equal(y, 2 * (X + k))


# -- layouts
STRUCTS = {
    "Error_Create_Args": c_api.ErrorCreate,
    "Error_GetMessage_Args": c_api.ErrorGetMessage,
    "Error_Destroy_Args": c_api.ErrorDestroy,
    "Buffer": c_api.Buffer,
    "Args": c_api.Buffers,
    "Rets": c_api.Buffers,
    "Attrs": c_api.Attributes,
    "ByteSpan": c_api.ByteSpan,
    "Scalar": c_api.Scalar,
    "Array": c_api.Array,
    "TypeInfo": c_api.TypeInfo,
    "CallFrame": c_api.CallFrame,
    "Handler_Register_Args": c_api.HandlerRegister,
    "Type_Register_Args": c_api.TypeRegister,
    "ExecutionContext_Get_Args": c_api.ContextGet,
    "State_Set_Args": c_api.StateAccess,
    "State_Get_Args": c_api.StateAccess,
    "Stream_Get_Args": c_api.StreamGet,
    "DeviceMemory_Allocate_Args": c_api.MemoryAllocate,
    "DeviceMemory_Free_Args": c_api.MemoryFree,
    "ThreadPool_Schedule_Args": c_api.ThreadPoolSchedule,
    "ThreadPool_NumThreads_Args": c_api.ThreadPoolNumThreads,
    "Future_Create_Args": c_api.FutureCreate,
    "Future_SetAvailable_Args": c_api.FutureSetAvailable,
    "Future_SetError_Args": c_api.FutureSetError,
    "RunId_Get_Args": c_api.RunIdGet,
    "DeviceOrdinal_Get_Args": c_api.DeviceOrdinalGet,
    "Metadata": c_api.Metadata,
    "Metadata_Extension": c_api.MetadataExtension,
    "Api": c_api.Api,
}


def test_layouts_are_the_headers(include, tmp_path, monkeypatch):
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))
    sizes = [f"sizeof(struct XLA_FFI_{name})" for name in STRUCTS]
    slots = [f"offsetof(struct XLA_FFI_Api, XLA_FFI_{name})" for name in c_api.FUNCTIONS]
    other = ["XLA_FFI_CallFrame_STRUCT_SIZE", "XLA_FFI_API_MAJOR", "XLA_FFI_API_MINOR"]
    numbers = [*sizes, *slots, *other]
    source = f"#include <xla/ffi/api/c_api.h>\nconst long numbers[] = {{{', '.join(numbers)}}};"
    found = ctypes.CDLL(str(c_compiler.compile_source(source, include_dirs=include)))
    expected = [
        *map(ctypes.sizeof, STRUCTS.values()),
        *(getattr(c_api.Api, name).offset for name in c_api.FUNCTIONS),
        *(c_api.CALL_FRAME_SIZE, c_api.MAJOR, c_api.MINOR),
    ]
    values = (ctypes.c_long * len(numbers)).in_dll(found, "numbers")
    assert dict(zip(numbers, values, strict=True)) == dict(zip(numbers, expected, strict=True))


# -- libraries and capsules
def test_a_library_registers_its_handlers_and_types_itself(run, include, tmp_path, monkeypatch):
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))
    source = tmp_path / "theirs.cc"
    source.write_text("""
    #include "xla/ffi/api/ffi.h"
    struct S { static xla::ffi::TypeId id; int64_t n; };
    xla::ffi::TypeId S::id = {};
    XLA_FFI_REGISTER_TYPE(xla::ffi::GetXlaFfiApi(), "theirs.S", &S::id, xla::ffi::MakeTypeInfo<S>());
    static xla::ffi::ErrorOr<std::unique_ptr<S>> Make() { return std::make_unique<S>(S{40}); }
    static xla::ffi::Error Get(S* s, xla::ffi::ResultBufferR0<xla::ffi::S64> y) {
      *y->typed_data() = s->n + 2;
      return xla::ffi::Error::Success();
    }
    XLA_FFI_DEFINE_HANDLER(make, Make, xla::ffi::Ffi::BindInstantiate());
    XLA_FFI_DEFINE_HANDLER(get, Get, xla::ffi::Ffi::Bind().Ctx<xla::ffi::State<S>>()
                                        .Ret<xla::ffi::BufferR0<xla::ffi::S64>>());
    XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), "t", "HOST",
                             (XLA_FFI_Handler_Bundle{make, nullptr, nullptr, get}));
    """)
    from xloom.calls.c_source import load_source

    for _ in range(2):
        registry.remove("t")
        assert [(r.name, r.platform) for r in load_source(source, include_dirs=include)] == [("t", "Host")]
        assert run(call([], "s64[]")) == 42


def test_capsules_of_jax(run, library):
    ffi = pytest.importorskip("jax.ffi")
    register_pointer("t", ffi.pycapsule(library.axpy))
    assert np.array_equal(run(call(["f32[4]", "f32[4]"], "f32[4]", "{a = 1.0 : f32}"), X, X), 2 * X)


def test_handlers_with_states_run_on_jaxs_platform(library):
    pytest.importorskip("jax")
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error::RuntimeWarning",
            str(Path(__file__).with_name("jax_stateful.py")),
            library._name,
        ],
        env={**os.environ, "JAX_PLATFORMS": "xloom,cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_programs_of_jax_and_the_same_handler_in_jaxlib(run, library):
    jax = pytest.importorskip("jax")
    name = "xloom.test.axpy"
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(library.axpy), platform="cpu")
    register_pointer(name, library.axpy, abi="typed-ffi")

    def f(x, y):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        call = jax.ffi.ffi_call(name, shape, vmap_method="sequential", input_output_aliases={1: 0})
        return call(x, 2 * y, a=np.float32(3)) + y

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    program = jax.jit(jax.vmap(f))
    found = run(xl.from_stablehlo(program.lower(x, x).as_text()), x, x)
    assert np.array_equal(found, np.asarray(program(x, x))) and np.array_equal(found, 6 * x)
