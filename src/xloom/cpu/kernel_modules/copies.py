"""Copies of large arrays, which threads share: what an operator is to change of an array that has to stay as it was."""

from __future__ import annotations

from functools import lru_cache

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import TASK, Phase
from xloom.llvm.cache_lines import write_around
from xloom.llvm.module_text import module_text
from xloom.llvm.target import Target
from xloom.llvm.target_module import TargetModule
from xloom.llvm.types import I8, I64, POINTER

LARGE = 1 / 4
"""Of the last cache, what an array takes of which so little is kept there that it is written around the caches. One
thread copies smaller ones as fast as two."""
_PIECE = 4096
_GRAIN = 64
"""Bytes of an item, and items that are worth a thread: 256 KiB take about 20 µs from memory to memory."""


@lru_cache(maxsize=4)
def copy_ir(symbol: str, target: Target) -> str:
    """LLVM IR of a task that copies pieces from the second of two arrays to the first."""
    module = TargetModule(target)
    function = ir.Function(module, TASK, symbol)
    function.attributes.add("nounwind")
    buffers, begin, end = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    there, source = (
        b.load(b.gep(buffers, [I64(k)], inbounds=True, source_etype=POINTER), typ=POINTER) for k in range(2)
    )
    first, count = b.mul(begin, I64(_PIECE)), b.mul(b.sub(end, begin), I64(_PIECE))
    there, source = (b.gep(p, [first], inbounds=True, source_etype=I8) for p in (there, source))
    write_around(b, there, source, count, align=1)
    b.fence("seq_cst")
    b.ret_void()
    return module_text(module)


def copy_phase(nbytes: int, symbol: str) -> tuple[Phase, int]:
    """The phase that copies so many bytes, and how many of them are left at the end."""
    return Phase(symbol, nbytes // _PIECE, _GRAIN), nbytes % _PIECE
