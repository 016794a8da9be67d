"""The vector registers of the processor."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import llvmlite.binding as llvm

from xloom.processor import cpu_features


class Registers(NamedTuple):
    """Vector registers: how many bytes one holds, how many there are, and what they can do."""

    nbytes: int
    count: int
    has_pair_products: bool
    """Sums of two products of 16-bit integers at once."""
    has_bfloat_products: bool = False
    """The same of bf16."""
    has_scaling: bool = False
    """Products with a power of 2 whose exponent is given."""


@lru_cache(maxsize=1)
def registers() -> Registers:
    """Those of the widest vectors."""
    features = cpu_features()
    if features.get("avx512f") and features.get("avx512bw"):
        return Registers(64, 32, bool(features.get("avx512vnni")), bool(features.get("avx512bf16")), has_scaling=True)
    if features.get("avx"):
        return Registers(32, 16, False)
    return Registers(16, 16 if "x86" in llvm.get_default_triple() else 32, False)


def packs_lanes(bits: int = 32) -> bool:
    """True when one instruction moves the lanes of a mask to the front: that of AVX-512, in vectors of 64 bytes."""
    return registers().nbytes == 64 and (bits >= 32 or bool(cpu_features().get("avx512vbmi2")))


def moves_lanes(bits: int) -> bool:
    """True when one instruction brings lanes of so many bits in any order."""
    return packs_lanes() and (bits > 8 or bool(cpu_features().get("avx512vbmi")))
