"""The typed custom calls of an exported program as C text: call frames as data, and handlers that the linker finds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from xloom.aot.lapack import routine_of
from xloom.calls.registry import place
from xloom.calls.typed_ffi import arrays_and_tokens
from xloom.calls.typed_ffi.attributes import Attribute, parse_attributes
from xloom.calls.typed_ffi.c_api import BUFFER, AttributeKind, Stage
from xloom.cpu.custom_calls.native_call import NativeCall
from xloom.hlo.dtype import from_numpy
from xloom.hlo.shape import Shape

_FRAME = "struct ffi_frame *frame"


def typed_calls(calls: Sequence[NativeCall], threads: int) -> str:
    """C definitions of what the machine code has for each typed call; empty when no call is typed."""
    typed = [call for call in calls if call.site is not None]
    if not typed:
        return ""
    lines = [f"#define EXPORT_THREADS {threads}", '#include "typed_ffi.c"']
    if any(routine_of(call.registration.name) for call in typed):
        lines.append('#include "lapack.c"')
    for call in typed:
        lines += [*_frame(call), *_handler(call)]
    return "\n".join(lines) + "\n"


def _frame(call: NativeCall) -> list[str]:
    """The frame that each run has a copy of; machine code writes where the copy's parts are."""
    assert call.site is not None
    arguments = [leaf for shape in call.shapes for leaf in arrays_and_tokens(shape)]
    results = arrays_and_tokens(call.instruction.shape)
    arrays, attributes = (
        [*arguments, *results],
        parse_attributes(call.instruction.backend_config, place(call.instruction)),
    )
    kind, count = f"struct frame_{call.number}", len(arrays)
    kinds = _row("int32_t", [BUFFER] * count)
    return [
        f"{kind} {{",
        "  struct ffi_frame call;",
        "  struct ffi_context context;",
        f"  struct ffi_buffer buffers[{count}];",
        f"  void *pointers[{count}];",
        "};",
        f'_Static_assert(sizeof({kind}) == {call.site.template.nbytes}, "as the machine code has it");',
        f"extern const {kind} frame_{call.number} __asm__({json.dumps(call.symbol('frame'))});",
        f"const {kind} frame_{call.number} = {{",
        "  .call = {",
        "    .sized = {offsetof(struct ffi_frame, future), NULL},",
        "    .api = &xloom_ffi_api,",
        f"    .stage = {int(Stage.EXECUTE)},",
        f"    .arguments = {{{_sized('buffers')}, {len(arguments)}, {kinds}, NULL}},",
        f"    .results = {{{_sized('buffers')}, {len(results)}, {kinds}, NULL}},",
        f"    .attributes = {_dictionary(attributes)},",
        "  },",
        f"  .buffers = {{{', '.join(map(_buffer, arrays))}}},",
        "};",
    ]


def _handler(call: NativeCall) -> list[str]:
    own, symbol = f"call_{call.number}", json.dumps(call.symbol(Stage.EXECUTE.name))
    routine = routine_of(call.registration.name)
    target = f"target_{call.number}"
    if routine is not None:
        declared = f"extern void {target}(void) __asm__(LAPACK_PREFIX {json.dumps(routine.symbol)} LAPACK_SUFFIX);"
        made = f"{routine.handler}(frame, &elements_{routine.letter}, {target})"
    else:
        declared = f"extern struct ffi_error *{target}({_FRAME}) __asm__({json.dumps(call.registration.name)});"
        made = f"{target}(frame)"
    return [
        declared,
        f"struct ffi_error *{own}({_FRAME}) __asm__({symbol});",
        f"struct ffi_error *{own}({_FRAME}) {{ return {made}; }}",
    ]


def _sized(name: str) -> str:
    return f"{{sizeof(struct ffi_{name}), NULL}}"


def _buffer(shape: Shape) -> str:
    dims = _row("int64_t", shape.dims)
    return f"{{{_sized('buffer')}, {shape.dtype.value}, NULL, {shape.rank}, {dims}}}"


# literals outside of functions live as long as the program
def _row(kind: str, values: Sequence[object]) -> str:
    return f"(const {kind}[]){{{', '.join(map(str, values)) or 0}}}"


def _dictionary(attributes: Mapping[str, Attribute]) -> str:
    named = sorted((name.encode("utf-8", "surrogateescape"), value) for name, value in attributes.items())
    made = [_value(value) for _, value in named]
    names = _row("void *const", [_span(name) for name, _ in named])
    values = _row("void *const", [value for _, value in made])
    return f"{{{_sized('attributes')}, {len(named)}, {_row('int32_t', [int(k) for k, _ in made])}, {names}, {values}}}"


def _value(value: Attribute) -> tuple[AttributeKind, str]:
    if isinstance(value, bytes):
        return AttributeKind.STRING, _span(value)
    if isinstance(value, dict):
        return AttributeKind.DICTIONARY, f"&(const struct ffi_attributes){_dictionary(value)}"
    dtype, data = from_numpy(value.dtype).value, _words(value)
    if value.ndim:
        return AttributeKind.ARRAY, f"&(const struct ffi_array){{{dtype}, {value.size}, {data}}}"
    return AttributeKind.SCALAR, f"&(const struct ffi_scalar){{{dtype}, {data}}}"


def _span(data: bytes) -> str:
    return f"&(const struct ffi_span){{(const char *){_words(np.frombuffer(data, np.uint8))}, {len(data)}}}"


def _words(array: np.ndarray) -> str:
    """The bytes of an array, aligned as all types need it."""
    data = array.tobytes()
    words = np.frombuffer(data + bytes(-len(data) % 8 or 8 * (not data)), np.uint64)
    return _row("uint64_t", [f"{word:#x}u" for word in words])
