"""Copies of rows as tasks."""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import TASK
from xloom.llvm.memory_copy import copy
from xloom.llvm.types import I8, I64, POINTER


def copy_rows(module: ir.Module, nbytes: int) -> str:
    """The symbol of a task that copies rows of so many bytes from its second array to its first."""
    name = f"xloom.copy_rows{nbytes}"
    if name not in module.globals:
        function = ir.Function(module, TASK, name)
        function.linkage = "internal"
        table, begin, end = function.args
        b = ir.IRBuilder(function.append_basic_block("entry"))
        first, size = b.mul(begin, I64(nbytes)), b.mul(b.sub(end, begin), I64(nbytes))
        arrays = [b.load(b.gep(table, [I64(k)], source_etype=POINTER), typ=POINTER) for k in range(2)]
        to, origin = (b.gep(array, [first], inbounds=True, source_etype=I8) for array in arrays)
        copy(b, to, origin, size)
        b.ret_void()
    return name
