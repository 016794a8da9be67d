"""A call that says another ABI than its code has is an error that says what to do, and no crash."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xloom as xl
from tests.calls.abi_pairings import DOORS
from xloom.calls import register_c, register_pointer
from xloom.calls.c_signature import abi_of

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")

HEADER = "#include <xloom/custom_call.h>\n"
SOURCES = {
    "original": "void f(void* out, const void** in) { ((float*)out)[0] = ((const float*)in[0])[0]; }",
    "status-returning": HEADER + "void f(void* out, const void** in, XlaCustomCallStatus* status) {}",
    "status-returning-unified": HEADER
    + "static int g(int x) { return x; }\n"
    + "void f(void *out, const void *in[], const char *opaque, size_t size, XlaCustomCallStatus *status) { g(1); }",
    "typed-ffi": "typedef struct XLA_FFI_CallFrame XLA_FFI_CallFrame;\n"
    + "void* f(XLA_FFI_CallFrame* frame) { return 0; }",
}


def call(version: str) -> xl.Module:
    return xl.parse(f"""HloModule m
    ENTRY e {{
      a = f32[] parameter(0)
      ROOT c = f32[] custom-call(a), custom_call_target="f", api_version=API_VERSION_{version}
    }}""")


@pytest.mark.parametrize("abi", SOURCES)
def test_the_source_says_the_abi(abi):
    assert register_c("f", SOURCES[abi]).abi == abi


@pytest.mark.parametrize("door", DOORS)
def test_no_pairing_ends_the_process(door):
    """What the function has, what the call says, with opaque bytes and without, failing or not."""
    pytest.importorskip("jaxlib")
    if door == "cffi":
        pytest.importorskip("cffi")
    in_child("abi_pairings.py", door)


@pytest.mark.parametrize("environment", [{"JAX_PLATFORMS": "xloom"}, {"XLOOM_AS_CPU": "1"}], ids=str)
def test_no_pairing_of_jax_ends_the_process(environment):
    pytest.importorskip("jax")
    in_child("jax_abi_pairings.py", **environment)


def in_child(file, *arguments, **environment):
    path = Path(__file__).with_name(file)
    command = [sys.executable, str(path), *arguments]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-200:] + done.stderr


@pytest.mark.parametrize("text", ["void f();", "void f(void);", "void f(table out);", "int main() { f(a, b); }", ""])
def test_what_does_not_say_its_abi(text):
    assert abi_of(text.encode(), "f") is None


@pytest.mark.parametrize(
    "parameters",
    [
        "float* out, const float* x",
        "float* out, const float* x, const float* y",
        "void* out, const void** in, int n",
        "void* out, const void** in, double a, size_t b, XlaCustomCallStatus* s",
        "int n",
    ],
)
def test_parameters_of_no_abi_are_refused_when_they_are_registered(parameters):
    with pytest.raises(xl.CustomCallError, match=rf"'f' has the parameters \({re.escape(parameters)}\), which no ABI"):
        register_c("f", f"{HEADER}void f({parameters}) {{}}")


def test_a_stated_abi_that_is_not_the_sources_is_refused():
    with pytest.raises(xl.CustomCallError, match="registered with abi='typed-ffi', but its source says 'original'"):
        register_c("f", SOURCES["original"], abi="typed-ffi")


@pytest.mark.parametrize(
    "parameters, abi",
    [
        ("void*, const void**", "original"),
        ("float*, const float**, void*", "status-returning"),
        ("void*, const void**, const char*, size_t, void*", "status-returning-unified"),
        ("float*, const float*", None),
        ("void*, const void**, double", None),
    ],
)
def test_types_of_cffi_say_the_abi(parameters, abi):
    cffi = pytest.importorskip("cffi")
    code = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value
    pointer = cffi.FFI().cast(f"void (*)({parameters})", code)
    if abi is None:
        with pytest.raises(xl.CustomCallError, match="no ABI of Host has"):
            register_pointer("f", pointer)
    else:
        assert register_pointer("f", pointer).abi == abi


BODIES = {
    "writes over the frame": "{ for (int k = 0; k < 64; ++k) ((float*)out)[k] = 1; }",
    "reads anywhere": "{ ((float*)out)[0] = ((const float*)in[0])[0] + ((const float*)((char*)in[1] + 64))[0]; }",
    "does nothing": "{ }",
    "ends the process": "{ _exit(0); }",
}


@pytest.mark.parametrize("body", BODIES)
def test_code_of_unknown_abi_is_asked_in_a_child(body):
    made = register_c("g", f"void _exit(int);\nvoid g(void* out, const void** in) {BODIES[body]}")
    register_pointer("f", made.address)
    for run in (xl.compile, lambda m: xl.evaluate(m, np.float32(1))):
        with pytest.raises(
            xl.CustomCallError, match=r"'f', which .*, is no typed handler: .*at %c(.|\n)*hint: .*abi=.*"
        ):
            run(call("TYPED_FFI"))


def test_a_typed_handler_of_unknown_abi_is_called(library):
    register_pointer("t", library.axpy)
    module = xl.parse("""ENTRY e {
      a = f32[2] parameter(0)
      ROOT c = f32[2] custom-call(a, a), custom_call_target="t", api_version=API_VERSION_TYPED_FFI,
        backend_config={a = 2.0 : f32}
    }""")
    x = np.array([1, 2], np.float32)
    assert np.array_equal(xl.compile(module)(x), 3 * x) and np.array_equal(xl.evaluate(module, x), 3 * x)
