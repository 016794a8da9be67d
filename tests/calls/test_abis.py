"""A call that says another ABI than its code has is an error that says what to do, and no crash."""

import shutil

import numpy as np
import pytest

import xloom as xl
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


@pytest.mark.parametrize("abi", SOURCES)
@pytest.mark.parametrize("version", ["ORIGINAL", "STATUS_RETURNING", "STATUS_RETURNING_UNIFIED", "TYPED_FFI"])
def test_a_call_of_another_is_refused(abi, version):
    if version == abi.upper().replace("-", "_"):
        return
    register_c("f", SOURCES[abi])
    for run in (xl.compile, lambda m: xl.evaluate(m, np.float32(1))):
        with pytest.raises(
            xl.CustomCallError, match=rf"'f' has the ABI {abi}, the call says .*_{version} (.|\n)*hint: write api"
        ):
            run(call(version))


@pytest.mark.parametrize(
    "text",
    [
        "void f(int n);",
        "void f(void* out, const void** in, int more);",
        "int main() { f(a, b); }",
        "#define f(x) x",
        "",
    ],
)
def test_what_is_of_no_known_abi(text):
    assert abi_of(text.encode(), "f") is None


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
        with pytest.raises(xl.CustomCallError, match=r"'f' is no typed handler(.|\n)*at %c(.|\n)*hint: .*abi=.*"):
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
