"""The processor that machine code is for: the host, or with $XLOOM_CPU one that can do less.

Code for x86-64-v3 (AVX2) is what hosts without wider vectors have, and can be tried on any other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache

import llvmlite.binding as llvm

from xloom.errors import XloomError

SWITCH = "XLOOM_CPU"
_V2 = frozenset({"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"})
LEVELS = {"x86-64-v3": _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}}
"""What each level of x86-64 can do, as LLVM names it."""


@lru_cache(maxsize=1)
def cpu_name() -> str:
    """LLVM's name of the processor. Raises XloomError for one that the host is not."""
    wish = os.environ.get(SWITCH, "")
    if not wish:
        return llvm.get_host_cpu_name()
    if wish not in LEVELS:
        raise XloomError(f"{SWITCH} is {wish!r}", hint=f"set it to one of {', '.join(LEVELS)}, or unset it")
    host = llvm.get_host_cpu_features()
    missing = sorted(name for name in LEVELS[wish] if not host.get(name))
    if missing:
        raise XloomError(f"{SWITCH} is {wish!r}, but the host lacks {', '.join(missing)}", hint=f"unset {SWITCH}")
    return wish


@lru_cache(maxsize=1)
def cpu_features() -> Mapping[str, bool]:
    """What it can do, by LLVM's names."""
    level = LEVELS.get(cpu_name())
    return llvm.get_host_cpu_features() if level is None else dict.fromkeys(level, True)


@lru_cache(maxsize=1)
def feature_text() -> str:
    """The same as LLVM wants it for a target machine; nothing of a level, whose name says all."""
    return llvm.get_host_cpu_features().flatten() if cpu_name() not in LEVELS else ""
