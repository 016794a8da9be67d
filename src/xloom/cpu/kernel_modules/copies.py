"""Copies of large arrays, which threads share: what an operator is to change of an array that has to stay as it was."""

from __future__ import annotations

from functools import lru_cache

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import TASK, Phase
from xloom.llvm.cache_lines import write_around
from xloom.llvm.module_text import module_text
from xloom.llvm.types import I8, I64, POINTER

LARGE = 8 << 20
"""Bytes of which caches keep so little that they are written around them; below, one thread copies as fast as two."""
_PIECE = 4096
_GRAIN = 64


@lru_cache(maxsize=4)
def copying(symbol: str) -> str:
    """LLVM IR of a task that copies pieces from the second of two arrays to the first."""
    module = ir.Module()
    function = ir.Function(module, TASK, symbol)
    function.attributes.add("nounwind")
    buffers, begin, end = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    target, source = (
        b.load(b.gep(buffers, [I64(k)], inbounds=True, source_etype=POINTER), typ=POINTER) for k in range(2)
    )
    first, count = b.mul(begin, I64(_PIECE)), b.mul(b.sub(end, begin), I64(_PIECE))
    target, source = (b.gep(p, [first], inbounds=True, source_etype=I8) for p in (target, source))
    write_around(b, target, source, count, align=1)
    b.fence("seq_cst")
    b.ret_void()
    return module_text(module)


def pieces(nbytes: int, symbol: str) -> tuple[Phase, int]:
    """The phase that copies so many bytes, and how many of them are left at the end."""
    return Phase(symbol, nbytes // _PIECE, _GRAIN), nbytes % _PIECE
