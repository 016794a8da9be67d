"""Elements at equal distances as single loads, not by instructions that gather.

Processors foresee the addresses of a load that is always as far from the one before, and fetch what it will ask for.
Of an instruction that loads several elements they do not.
"""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.target import Target

_WITHOUT = '"target-features"="-fast-gather"'


def without_gathers(function: ir.Function, target: Target) -> None:
    """Has LLVM load each lane of a vector by itself in this function, where the target lets it choose."""
    if "avx2" in target.features and target.registers.nbytes == 32:
        set.add(function.attributes, _WITHOUT)  # llvmlite knows no attributes with values


def copy_gathers(source: ir.Function, inlines: ir.Function) -> None:
    """The same for a function into which the first one is inlined."""
    if _WITHOUT in source.attributes:
        set.add(inlines.attributes, _WITHOUT)
