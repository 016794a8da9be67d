"""What cannot be called is refused when it is registered, with what to do instead."""

import ctypes
from pathlib import Path
from typing import Any

import pytest

import xloom as xl
from xloom.calls import load_library, load_source, register_c, register_pointer

HOST = "void f(void* out, const void** in) {}"
DEVICE = "#include <stddef.h>\nvoid f(void* stream, void** buffers, const char* opaque, size_t n) {}"
BUFFER = ctypes.create_string_buffer(64)


@pytest.mark.parametrize("address", [8, -1, 1 << 70, ctypes.addressof(BUFFER)], ids=["low", "negative", "long", "data"])
def test_an_address_of_no_code(address):
    with pytest.raises(xl.CustomCallError, match="where there is no code"):
        register_pointer("t", address)


def test_a_symbol_that_is_no_function():
    with pytest.raises(xl.CustomCallError, match="where there is no code"):
        register_c("t", "int f = 3;", "f")


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (HOST, {"language": "cpp"}, "there is no language 'cpp'"),
        ("kernel.c", {}, "'kernel.c' is no source\n.*a file is a pathlib.Path"),
        (Path("kernel.c"), {}, "there is no file kernel.c"),
        (f"static {HOST}", {}, "has no symbol 'f'\n.*it is not static"),
        (HOST, {"when": "causal"}, "when='causal', which is no function"),
        (HOST, {"platform": "cpu"}, 'these are for platform="Host"'),
        (DEVICE, {}, "these are an accelerator's, which platform= names"),
    ],
)
def test_wrong_uses_of_source_have_hints_that_fit(source, options, message):
    with pytest.raises(xl.CustomCallError, match=message):
        register_c("t", source, "f", **options)


@pytest.mark.parametrize("load", [load_library, load_source])
def test_a_file_that_is_not_there(load, tmp_path):
    with pytest.raises(xl.CustomCallError, match="there is no file"):
        load(tmp_path / "kernels.c")


def test_a_decorator_without_a_name():
    decorator: Any = xl.custom_call
    with pytest.raises(xl.CustomCallError, match="a custom call has a name"):

        @decorator
        def kernel(out, x): ...
