"""What program.c has to know of the program around which it is compiled, as C text."""

from __future__ import annotations

import json
from collections.abc import Sequence

from xloom.aot.interface import Interface
from xloom.aot.weights import HEADER_BYTES, MAGIC, Weights
from xloom.calls.buffers import ALIGNMENT
from xloom.calls.registry import place
from xloom.cpu.custom_calls.native_call import NativeCall
from xloom.hlo.instruction import Instruction
from xloom.llvm.target import Target
from xloom.llvm.tile_permission import TILES_REQUEST

_ASKED = (
    "sse4.2", "popcnt", "avx", "avx2", "fma", "bmi", "bmi2", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl",
    "avx512vnni", "avx512vbmi", "avx512vbmi2", "avx512bf16",
)  # fmt: skip
"""Features of x86-64 that C compilers can ask for, by the names that they share with LLVM."""
_FORMS = {
    "original": ("void *out, const void **in", "out, in"),
    "status-returning": ("void *out, const void **in, void *status", "out, in, status"),
    "status-returning-unified": (
        "void *out, const void **in, const char *opaque, size_t length, void *status",
        "out, in, opaque, length, status",
    ),
}


def tables(
    interface: Interface,
    target: Target,
    *,
    threads: int,
    arena_bytes: int,
    weights: Weights,
    is_apart: bool,
    aligned_results: Sequence[int],
    calls: Sequence[NativeCall],
    failing: Sequence[Instruction],
    has_tasks: bool,
) -> str:
    """C definitions; `is_apart` says that the weights are in a file of their own, `has_tasks` that there is a queue of
    tasks for typed handlers.
    """
    lines = [
        "#include <stddef.h>",
        "#include <stdint.h>",
        f"#define EXPORT_NAME(suffix) {interface.name}##suffix",
        f"#define EXPORT_THREADS {threads}",
        f"#define EXPORT_ARENA_BYTES {arena_bytes}",
        f"#define EXPORT_ALIGNMENT {ALIGNMENT}",
        f"#define EXPORT_ARGUMENTS {len(interface.arguments)}",
        f"#define EXPORT_RESULTS {len(interface.results)}",
        f"#define EXPORT_TASKS {int(has_tasks)}",
        f"#define EXPORT_WEIGHTS_APART {int(is_apart)}",
        f"#define EXPORT_WEIGHTS_BYTES {weights.nbytes}",
        f"#define EXPORT_WEIGHTS_HEADER_BYTES {HEADER_BYTES}",
        f"#define EXPORT_WEIGHTS_MAGIC {json.dumps(MAGIC.decode())}",
        f"#define EXPORT_CONSTANTS {len(weights.offsets)}",
        _table("size_t", "constant_offsets", weights.offsets),
        _table("unsigned char", "weights_digest", weights.digest),
        _table("char *const", "argument_names", [json.dumps(a.name) for a in interface.arguments]),
        _table("char *const", "result_names", [json.dumps(r.name) for r in interface.results]),
        _table("size_t", "argument_bytes", [a.nbytes for a in interface.arguments]),
        _table("size_t", "result_bytes", [r.nbytes for r in interface.results]),
        _table("char", "result_is_aligned", [int(k in aligned_results) for k in range(len(interface.results))]),
        _table("char *const", "call_places", [json.dumps(_told(i)) for i in failing]),
        f"static const char interface_text[] = {json.dumps(interface.to_json())};",
        *(("#include <sys/syscall.h>", "#include <unistd.h>") if target.has_tiles else ()),
        "static const char *lacking(void) {",
        *(f'  if (!__builtin_cpu_supports("{f}")) return "{f}";' for f in _ASKED if f in target.features),
        *(
            [f'  if (syscall({", ".join(map(str, TILES_REQUEST))}) != 0) return "amx-tile";']
            if target.has_tiles
            else []
        ),
        "  return NULL;",
        "}",
        *(line for call in calls if call.site is None for line in _trampoline(call)),
    ]
    return "\n".join(lines) + "\n"


def _table(kind: str, name: str, values: Sequence[object]) -> str:
    return f"static const {kind} {name}[] = {{{', '.join(map(str, values)) or 0}}};"


def _told(instruction: Instruction) -> str:
    return f"{instruction['custom_call_target']} (at {place(instruction)})"


def _trampoline(call: NativeCall) -> list[str]:
    """What the machine code calls by number, and what that is called in C."""
    assert call.registration.abi is not None
    parameters, arguments = _FORMS[call.registration.abi]
    own, symbol = f"call_{call.number}", json.dumps(call.symbol("function"))
    target = f"target_{call.number}"
    return [
        f"extern void {target}({parameters}) __asm__({json.dumps(call.registration.name)});",
        f"void {own}({parameters}) __asm__({symbol});",
        f"void {own}({parameters}) {{ {target}({arguments}); }}",
    ]
