"""Copies of memory, as LLVM IR and as tasks."""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import TASK
from xloom.llvm.types import I1, I8, I64, POINTER, VOID


def memcpy(b: ir.IRBuilder, to: ir.Value, origin: ir.Value, nbytes: ir.Value) -> None:
    """Copies so many bytes (i64) from one address to another."""
    name = "llvm.memcpy.p0.p0.i64"
    kind = ir.FunctionType(VOID, [POINTER, POINTER, I64, I1])
    b.call(b.module.globals.get(name) or ir.Function(b.module, kind, name), [to, origin, nbytes, I1(0)])


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
        memcpy(b, to, origin, size)
        b.ret_void()
    return name
