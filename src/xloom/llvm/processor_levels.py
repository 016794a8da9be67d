"""Levels of x86-64: what many processors have in common, so that one machine's code runs on others.

Sources: the x86-64 psABI for v2 to v4; LLVM's lists of what processors have for the rest.
"""

from __future__ import annotations

from typing import NamedTuple


class Level(NamedTuple):
    """One of them, by LLVM's names."""

    cpu: str
    """The psABI's level, or a processor whose code runs on all."""
    more: str
    """What these processors differ in from it, as LLVM wants it."""
    features: frozenset[str]
    """All of them, but for what every x86-64 has."""


_V2 = ("crc32", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_VBMI2 = (
    "avx512vnni", "avx512vbmi", "avx512vbmi2", "avx512ifma", "avx512bitalg", "avx512vpopcntdq", "gfni", "vaes",
    "vpclmulqdq",
)  # fmt: skip


def _v4(*more: str) -> Level:
    # of Ice Lake and what followed it vectors of 64 bytes are as quick as narrower ones, which LLVM prefers for v4
    wide = ["-prefer-256-bit"] if "avx512vbmi2" in more else []
    return Level("x86-64-v4", ",".join([*(f"+{name}" for name in more), *wide]), frozenset((*_V4, *more)))


_FP16 = (*_VBMI2, "avx512bf16", "avx512fp16")
TILES = ("amx-bf16", "amx-int8", "amx-tile")
"""AMX: registers of 16 rows of 64 bytes, and their products."""

LEVELS = {
    "x86-64-v4-amx": _v4(*_FP16, *TILES),
    "x86-64-v4-fp16": _v4(*_FP16),
    # those that have no more are Zen 4 and what followed it, by whose times code is scheduled
    "x86-64-v4-bf16": Level("znver4", "-sse4a", frozenset((*_V4, *_VBMI2, "avx512bf16"))),
    "x86-64-v4-vbmi2": _v4(*_VBMI2),
    "x86-64-v4-vnni": _v4("avx512vnni"),
    "x86-64-v4": _v4(),
    # LLVM would take apart the vectors of indices, and all that they are computed of
    "x86-64-v3": Level("x86-64-v3", "+fast-gather", frozenset(_V3)),
    "x86-64-v2": Level("x86-64-v2", "", frozenset(_V2)),
}
"""Best first: Sapphire Rapids; the same where a process may not use its tiles; Zen 4; Ice Lake; Cascade Lake; Skylake;
Haswell and Zen; Nehalem; and what followed."""
