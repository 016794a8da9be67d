"""The C header of an exported program."""

from __future__ import annotations

import xloom
from xloom.aot.interface import Array, Interface
from xloom.hlo.dtype import DType

_TYPES = {
    "pred": "uint8_t", "f32": "float", "f64": "double", "s8": "int8_t", "s16": "int16_t", "s32": "int32_t",
    "s64": "int64_t", "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "f16": "uint16_t",
    "bf16": "uint16_t", "c64": "xloom_complex64", "c128": "xloom_complex128",
}  # fmt: skip
"""Of the rest an element takes a byte."""


def c_type(dtype: DType) -> str:
    """What an element is in C; those of types that C has not are their bits."""
    return _TYPES.get(dtype.name) or ("int8_t" if dtype.name.startswith("s") else "uint8_t")


def header(
    interface: Interface, *, origin: str, target: str, threads: int, weights: str, calls: list[str], routines: list[str]
) -> str:
    """The header's text; `weights` is the file of the weights, empty if they are in the program."""
    n, upper = interface.name, interface.name.upper()
    needs = f" It needs the weights in {weights}." if weights else ""
    linked = f"\n   Link with what defines {', '.join(calls)}." if calls else ""
    linked += f"\n   It calls LAPACK: {', '.join(routines)}." if routines else ""
    weight = ", const char *weights" if weights else ""
    of_weights = f" `weights` is the path of {weights}." if weights else ""
    return f"""/* {origin}, compiled by xloom {xloom.__version__} for {target}.{needs}{linked}

   {n} *program;
   if ({n}_create(&program{', "' + weights + '"' if weights else ""}) == {upper}_OK) {{
     {n}_status status = {n}_run(program, &arguments, &results);
     if (status != {upper}_OK) puts({n}_message(program));
     {n}_destroy(program);
   }}

   Arrays are row-major. A program runs once at a time; several of them run in several threads at once. */
#ifndef {upper}_EXPORTED_H
#define {upper}_EXPORTED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif
{_complex_types(interface)}
typedef enum {{
  {upper}_OK = 0,
  {upper}_OUT_OF_MEMORY,
  {upper}_WRONG_PROCESSOR, /* it has not all that {target} has */
  {upper}_NO_WEIGHTS,      /* the file of the weights cannot be read, or has those of another program */
  {upper}_BAD_ARGUMENT,    /* a pointer is NULL, or not aligned as the struct says */
  {upper}_BUSY,            /* another thread runs this program now */
  {upper}_CALL_FAILED      /* a custom call has failed, and nothing after it has run */
}} {n}_status;

typedef struct {{
{_members(interface.arguments, "const ", interface, is_result=False)}
}} {n}_arguments;

typedef struct {{
{_members(interface.results, "", interface, is_result=True)}
}} {n}_results;

/* A program with the memory for one run. */
typedef struct {n} {n};

/* Makes one.{of_weights} */
{n}_status {n}_create({n} **program{weight});

/* Runs it. Results have no meaning unless it returns {upper}_OK. */
{n}_status {n}_run({n} *program, const {n}_arguments *arguments, const {n}_results *results);

/* Why the last run of it did not return {upper}_OK; valid until the next one. */
const char *{n}_message(const {n} *program);

/* What a status means. */
const char *{n}_status_text({n}_status status);

void {n}_destroy({n} *program);

/* Loops are cut for at most {threads} threads, or fewer from now on. They begin with the first loop worth it and
   belong to all programs of this kind. Results do not depend on how many there are. */
void {n}_limit_threads(int threads);

/* Has loops run by your own threads from now on: `parallel_for(pool, body, context, count)` calls `body(context, k)`
   for k from 0 to count - 1, in any order and in any threads, and returns when all have returned. Loops are cut for
   so many `threads`. NULL: by its own threads again. Not while a program runs. */
typedef void (*{n}_parallel_for)(void *pool, void (*body)(void *context, int64_t k), void *context, int64_t count);
void {n}_use_threads({n}_parallel_for parallel_for, void *pool, int threads);

#ifdef __cplusplus
}}
#endif
#endif
"""


def _complex_types(interface: Interface) -> str:
    used = {c_type(a.dtype) for a in (*interface.arguments, *interface.results)}
    parts = [("xloom_complex64", "float"), ("xloom_complex128", "double")]
    found = [
        f"#ifndef {n.upper()}\n#define {n.upper()}\ntypedef struct {{ {part} real, imaginary; }} {n};\n#endif\n"
        for n, part in parts
        if n in used
    ]
    return "\n" + "".join(found) if found else ""


def _members(arrays: tuple[Array, ...], qualifier: str, interface: Interface, *, is_result: bool) -> str:
    if not arrays:
        return "  const void *none; /* C has no empty struct */"
    shared = dict(interface.aliases) if is_result else {}
    lines = []
    for k, array in enumerate(arrays):
        note = f"{array}, {array.nbytes} bytes"
        if k in shared:
            note += f"; may be the memory of {interface.arguments[shared[k]].name}"
        lines.append(f"  {qualifier}{c_type(array.dtype)} *{array.name}; /* {note} */")
    return "\n".join(lines)
