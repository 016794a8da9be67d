"""Code of each ABI, registered by one door, and called by each: `abi_pairings.py DOOR`, in a process that may die.

Prints each pairing before it is tried, so that the last line is the one that ended the process.
"""

import ctypes
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import xloom as xl
from xloom.calls import load_library, register_c, register_pointer, register_symbol, registry
from xloom.calls.c_compiler import compile_source
from xloom.calls.registry import ABIS

HOST = """
#include <xloom/custom_call.h>
#include <string.h>
/* each first writes the whole result, so that a frame in its place is lost */
void original(RESULT out, OPERANDS in) { for (int i = 0; i < 64; ++i) ((float*)out)[i] = 2 * ((const float*)in[0])[i]; }
void status_returning(RESULT out, OPERANDS in, XlaCustomCallStatus* status) {
  original(out, in);
  if (((float*)out)[0] < 0) XlaCustomCallStatusSetFailure(status, "negative", 8);
}
void status_returning_unified(RESULT out, OPERANDS in, const char* opaque, size_t size, XlaCustomCallStatus* status) {
  original(out, in);
  if (size) ((float*)out)[0] = opaque[size - 1];
  if (((float*)out)[0] < 0) XlaCustomCallStatusSetFailure(status, "negative", 8);
}
#ifdef OFFER
XLA_CPU_REGISTER_CUSTOM_CALL_TARGET(original);
XLA_CPU_REGISTER_CUSTOM_CALL_TARGET(status_returning);
XLA_CPU_REGISTER_CUSTOM_CALL_TARGET(status_returning_unified);
#endif
"""
TYPED = """
#include "xla/ffi/api/c_api.h"
XLA_FFI_Error* typed_ffi(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start && frame->extension_start->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata* m = ((XLA_FFI_Metadata_Extension*)frame->extension_start)->metadata;
    m->api_version.major_version = XLA_FFI_API_MAJOR;
    m->api_version.minor_version = XLA_FFI_API_MINOR;
    return 0;
  }
  const float* x = ((XLA_FFI_Buffer*)frame->args.args[0])->data;
  float* y = ((XLA_FFI_Buffer*)frame->rets.rets[0])->data;
  for (int i = 0; i < 64; ++i) y[i] = 2 * x[i];
  return 0;
}
#ifdef OFFER
#include <xloom/custom_call.h>
XLA_CPU_REGISTER_CUSTOM_CALL_TARGET(typed_ffi);
#endif
"""
PLAIN = "#define RESULT void*\n#define OPERANDS const void**\n"
NAMED = "typedef float* result_type; typedef const void* const* operands_type;\n"
NAMED += "#define RESULT result_type\n#define OPERANDS operands_type\n"
X = np.arange(1, 65, dtype=np.float32)


def source(abi: str, prefix: str = PLAIN) -> str:
    return prefix + (TYPED if abi == "typed-ffi" else HOST)


def include() -> list[Path]:
    import jaxlib

    return [Path(jaxlib.__file__).parent / "include"]


def function(abi: str) -> Any:
    path = compile_source(source(abi), include_dirs=include())
    return ctypes.CDLL(str(path))[abi.replace("-", "_")]


def address(abi: str) -> int:
    return ctypes.cast(function(abi), ctypes.c_void_p).value or 0


def capsule(abi: str) -> Any:
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(("PyCapsule_New", ctypes.pythonapi))(address(abi), None, None)


def by_source(abi: str, prefix: str = PLAIN) -> None:
    register_c("t", source(abi, prefix), abi.replace("-", "_"), include_dirs=include())


def by_named_types(abi: str) -> None:
    by_source(abi, NAMED)


def by_prototype(abi: str) -> None:
    p, size = ctypes.c_void_p, ctypes.c_size_t
    kinds = {"typed-ffi": [p], "original": [p, p], "status-returning": [p, p, p]}.get(abi, [p, p, p, size, p])
    register_pointer("t", ctypes.CFUNCTYPE(None, *kinds)(address(abi)))


def by_cffi(abi: str) -> None:
    import cffi

    register_pointer("t", cffi.FFI().cast("void*", address(abi)))


def by_macro(abi: str) -> None:
    found = load_library(compile_source(source(abi, f"#define OFFER\n{PLAIN}"), include_dirs=include()))
    (chosen,) = (r for r in found if r.name == abi.replace("-", "_"))
    registry.add(replace(chosen, name="t"))


def by_symbol(abi: str) -> None:
    register_symbol("t", compile_source(source(abi), include_dirs=include()), abi.replace("-", "_"))


KNOWN = {"source": by_source, "prototype": by_prototype, "macro": by_macro}
"""Doors that know the ABI."""
DOORS: dict[str, Any] = {
    **KNOWN,
    "named types": by_named_types,
    "address": lambda abi: register_pointer("t", address(abi)),
    "ctypes": lambda abi: register_pointer("t", function(abi)),
    "cffi": by_cffi,
    "capsule": lambda abi: register_pointer("t", capsule(abi)),
    "symbol": by_symbol,
    "said to be typed": lambda abi: register_pointer("t", address(abi), abi="typed-ffi"),
}


CASES = ("", False), ("", True), ("opaque bytes of thirty-two letters", False)
"""Opaque bytes, and whether the operand is negative."""


def program(version: str, opaque: str) -> xl.Module:
    config = f', backend_config="{opaque}"' if opaque else ""
    return xl.parse(f"""HloModule m
    ENTRY e {{
      x = f32[64] parameter(0)
      n = f32[64] add(x, x)
      ROOT c = f32[64] custom-call(n), custom_call_target="t", api_version={version}{config},
        metadata={{source_file="model.py" source_line=7}}
    }}""")


def compiled(module: xl.Module, x: np.ndarray) -> Any:
    return xl.compile(module)(x)


def told(module: xl.Module, x: np.ndarray) -> str:
    """The error that a program is, by compiler and interpreter alike, or nothing; a value is checked."""
    found = []
    for run in (compiled, xl.evaluate):
        try:
            value = run(module, x)
            assert np.array_equal(value[1:], 4 * x[1:]), value
            found.append("")
        except xl.CustomCallError as error:
            assert "(at %c, model.py:7)" in str(error), error
            found.append(str(error))
    assert found[0] == found[1], found
    return found[0]


def expected(door: str, abi: str, version: str, opaque: str, negative: bool) -> str:
    """What is in the error."""
    fits, typed = ABIS[abi] == version, ABIS["typed-ffi"]
    if not fits and (door in KNOWN or abi == "typed-ffi"):
        return f"has the ABI {abi}, the call says {version}(.|\\n)*hint: write api_version={ABIS[abi]}"
    if abi != "typed-ffi" and (door == "said to be typed" or version == typed):
        return "is no typed handler"
    if door not in KNOWN and opaque and version.endswith("UNIFIED"):
        return 'hint: register it with abi="status-returning-unified"'
    if negative and abi.startswith("status"):
        return "failed: negative" + ("" if "STATUS" in version else "(.|\n)*API_VERSION_ORIGINAL has none")
    return ""


def try_all(door: str) -> None:
    for abi in ABIS:
        DOORS[door](abi)
        for version in ABIS.values():
            for opaque, negative in CASES if door in ("source", "address") else CASES[:1]:
                if opaque and version == ABIS["typed-ffi"]:
                    continue
                print(door, abi, version, opaque, negative, flush=True)
                found = told(program(version, opaque), -X if negative else X)
                wanted = expected(door, abi, version, opaque, negative)
                assert re.search(wanted, found) if wanted else not found, (found, wanted)


if __name__ == "__main__":
    try_all(sys.argv[1])
