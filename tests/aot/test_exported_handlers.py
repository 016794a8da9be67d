"""Typed handlers of XLA's FFI in exported programs: the linker finds them, and what they ask for needs no Python."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import xloom as xl

jax = pytest.importorskip("jax")
if shutil.which("c++") is None:
    pytest.skip("needs a C++ compiler", allow_module_level=True)

HANDLERS = Path(__file__).parents[1] / "calls" / "typed_handlers.cc"
PARTS = HANDLERS.with_name("typed_features.cc")
TYPED = "api_version=API_VERSION_TYPED_FFI"
SCALARS = """{u64 = 18446744073709551615 : ui64, pred = true, s8 = -128 : i8, s16 = -2 : i16, s32 = -3 : i32,
  s64 = -9223372036854775808 : i64, u8 = 255 : ui8, u16 = 65535 : ui16, u32 = 4294967295 : ui32,
  f32 = 1.500000e+00 : f32, f64 = 0x7FF0000000000000 : f64, mode = 2 : ui8}"""
PROGRAM = f"""HloModule handlers
ENTRY main {{
  x = f32[4] parameter(0)
  m = bf16[2,3] parameter(1)
  z = c128[] parameter(2)
  axpy = f32[4] custom-call(x, x), custom_call_target="axpy", {TYPED}, backend_config={{a = 2.5 : f32}}
  t = token[] after-all()
  look = (u8[200], f8e5m2[0]) custom-call(x, m, z, t), custom_call_target="look", {TYPED}
  text = u8[200] get-tuple-element(look), index=0
  scalars = u8[200] custom-call(), custom_call_target="scalars", {TYPED}, backend_config={SCALARS}
  around = s64[5] custom-call(), custom_call_target="surroundings", {TYPED}, custom_call_has_side_effect=true
  later = f32[4] custom-call(x), custom_call_target="later", {TYPED}
  parts = f32[4] custom-call(x), custom_call_target="parts", {TYPED}, backend_config={{wrong = 7 : i64}}
  ROOT r = (f32[4], u8[200], u8[200], s64[5], f32[4], f32[4]) tuple(axpy, text, scalars, around, later, parts)
}}"""
X = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """The handlers, compiled once: an object file each."""
    folder = tmp_path_factory.mktemp("handlers")
    for source in (HANDLERS, PARTS):
        command = ["c++", "-std=c++17", "-O1", "-w", "-fPIC", "-I", jax.ffi.include_dir(), "-c", source]
        subprocess.run([*command, "-o", folder / f"{source.stem}.o"], check=True)
    (folder / "empty.cc").touch()  # for the library of C++
    return [folder / f"{source.stem}.o" for source in (HANDLERS, PARTS)] + [folder / "empty.cc"]


def text_of(array):
    return bytes(array).rstrip(b"\0").decode()


def test_what_handlers_get_and_ask_for(tmp_path, objects):
    exported = xl.export(xl.parse(PROGRAM), threads=3)
    assert "Link with what defines axpy, later, look, parts, scalars, surroundings." in exported.header()
    loaded = xl.load_exported(exported.save(tmp_path / "libhandlers.so", link_with=objects).program)
    arguments = X, np.zeros((2, 3), xl.bf16.numpy), np.complex128(0)
    axpy, look, scalars, around, later, parts = loaded(*arguments)
    assert np.array_equal(axpy, 3.5 * X)
    assert text_of(look) == "a11[4,] a16[2,3,] a18[] a17[] r6[200,] r19[0,] "
    assert text_of(scalars) == "1 -128 -2 -3 -9223372036854775808 255 65535 4294967295 18446744073709551615 1.5 inf 2"
    assert around[1:].tolist() == [0, 3, 1, 8]
    assert loaded(*arguments)[3][0] == around[0] + 1  # each run has its number
    assert np.array_equal(later, 2 * X) and np.array_equal(parts, -X)


def typed(target, operands="x", config="", result="f32[4]"):
    text = f"""HloModule typed
      ENTRY main {{ x = f32[4] parameter(0)
      ROOT made = {result} custom-call({operands}), custom_call_target="{target}", {TYPED}{config} }}"""
    return xl.export(xl.parse(text))


def test_attributes_of_all_kinds(tmp_path, objects):
    source = tmp_path / "kinds.cc"
    source.write_text("""#include <cstring>
#include <sstream>
#include <string_view>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error Kinds(ffi::AnyBuffer, ffi::ResultBufferR1<ffi::U8> out, std::string_view name,
                        ffi::Span<const int8_t> s8, ffi::Span<const uint64_t> u64, ffi::Span<const double> none,
                        ffi::Dictionary options) {
  std::ostringstream text;
  text << name << ";";
  for (int8_t n : s8) text << int(n) << ",";
  for (uint64_t n : u64) text << n << ",";
  text << none.size() << ";" << *options.get<std::string_view>("kind") << *options.get<int64_t>("depth")
       << *options.get<ffi::Dictionary>("inner")->get<double>("x");
  std::memcpy(out->untyped_data(), text.str().c_str(), text.str().size() + 1);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(kinds, Kinds, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::BufferR1<ffi::U8>>()
    .Attr<std::string_view>("name").Attr<ffi::Span<const int8_t>>("s8").Attr<ffi::Span<const uint64_t>>("u64")
    .Attr<ffi::Span<const double>>("f64").Attr<ffi::Dictionary>("options"));
""")
    config = """, backend_config={name = "a \\22quoted\\22\\0A\\\\line", s8 = array<i8: -1, 2>, f64 = array<f64>,
      u64 = dense<7> : tensor<3xui64>, options = {kind = "deep", depth = 3 : i64, inner = {x = 2.5 : f64}}}"""
    saved = typed("kinds", config=config, result="u8[99]").save(
        tmp_path / "libtyped.so", link_with=[source], include_dirs=[jax.ffi.include_dir()]
    )
    found = xl.load_exported(saved.program)(X)
    assert bytes(found).split(b"\0")[0].decode() == 'a "quoted"\n\\line;-1,2,7,7,7,0;deep32.5'


@pytest.mark.parametrize(
    ("target", "given", "message"),
    [
        ("below", X + 3, r"below \(at %made\): OUT_OF_RANGE: three is too much"),
        ("later", X - 1, r"later \(at %made\): ABORTED: too late"),
        ("axpy", X, r"axpy \(at %made\): INVALID_ARGUMENT: (?s:.*)Wrong number of arguments: expected 2 but got 1"),
        ("stream", X, r"stream \(at %made\): INVALID_ARGUMENT: (?s:.*)There is no stream on Host"),
    ],
)
def test_errors_are_the_programs_status(tmp_path, objects, target, given, message):
    loaded = xl.load_exported(typed(target).save(tmp_path / "libtyped.so", link_with=objects).program)
    for _ in range(2):
        with pytest.raises(xl.EvaluationError, match=message):
            loaded(given)
    if target == "below":
        assert np.array_equal(loaded(X), X + 1)


MAIN = """
#include <stdio.h>
#include "typed.h"
int main(void) {
  float x[4] = {0, 1, 2, 3};
  _Alignas(64) float y[16];
  typed *program;
  if (typed_create(&program) != TYPED_OK) return 2;
  typed_arguments arguments = {x};
  typed_results results = {y};
  for (int k = 0; k < 2; ++k, x[0] = 5) {
    typed_status status = typed_run(program, &arguments, &results);
    printf("%d %s %g\\n", status, typed_message(program), y[3]);
  }
  typed_destroy(program);
}"""


def test_from_c_in_a_loop(tmp_path, objects):
    """The frame of a call is filled in once a run, for as many calls as there are."""
    text = f"""HloModule typed
body {{ s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1) j = s32[] add(i, one)
  y = f32[4] custom-call(x), custom_call_target="below", {TYPED}
  ROOT r = (s32[], f32[4]) tuple(j, y) }}
condition {{ s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 three = s32[] constant(3)
  ROOT less = pred[] compare(i, three), direction=LT }}
ENTRY main {{ x = f32[4] parameter(0) zero = s32[] constant(0) t = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(t), condition=condition, body=body ROOT y = f32[4] get-tuple-element(w), index=1 }}"""
    xl.export(xl.parse(text)).save(tmp_path / "typed.o")
    (tmp_path / "main.c").write_text(MAIN)
    subprocess.run(["cc", "-c", "-Wall", "-Werror", "main.c", "-o", "main.o"], cwd=tmp_path, check=True)
    command = ["c++", "main.o", "typed.o", objects[0], "-lm", "-lpthread", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["0  6", "6 below (at %y): OUT_OF_RANGE: three is too much 6"]


@pytest.mark.parametrize("by_name", [False, True])
def test_a_function_of_jax_with_a_handler(tmp_path, objects, by_name, monkeypatch):
    if by_name:  # as JAX before 0.10.2 wants the calls
        named = jax.export.DisabledSafetyCheck.custom_call
        monkeypatch.setattr(
            jax.export.DisabledSafetyCheck, "custom_call", lambda name: named("" if name == "ALL" else name)
        )

    def f(x):
        return jax.ffi.ffi_call("axpy", jax.ShapeDtypeStruct(x.shape, x.dtype))(x, x + 1, a=np.float32(2)) * 2

    saved = xl.export(jax.jit(f), (X,), name="f").save(tmp_path / "libf.so", link_with=objects)
    assert np.array_equal(xl.load_exported(saved.program)(X), 2 * (2 * X + X + 1))
