"""Copies from global to shared memory that go on while the thread does something else (cp.async)."""

from __future__ import annotations

from llvmlite import ir

from xloom.cuda.kernel import KernelBuilder
from xloom.llvm.types import I32, VOID

SIZES = (4, 8, 16)
"""Bytes of one copy, which both addresses are multiples of."""
_SHARED, _GLOBAL = ir.PointerType(addrspace=3), ir.PointerType(addrspace=1)


def begin_copy(kernel: KernelBuilder, target: ir.Value, source: ir.Value, nbytes: int, read: ir.Value) -> None:
    """Begins a copy to shared memory; only the first `read` bytes (i32) are read, and the others 0."""
    level = "cg" if nbytes == 16 else "ca"  # the former leaves the first cache alone, and is of 16 bytes only
    kind = ir.FunctionType(VOID, [_SHARED, _GLOBAL, I32])
    b = kernel.b
    places = b.addrspacecast(target, _SHARED), b.addrspacecast(source, _GLOBAL)
    b.call(_declared(b.module, f"{level}.shared.global.{nbytes}.s", kind), [*places, read])


def commit_copies(kernel: KernelBuilder) -> None:
    """What was begun since the last time is a group."""
    kernel.b.call(_declared(kernel.b.module, "commit.group", ir.FunctionType(VOID, [])), [])


def wait_for_copies(kernel: KernelBuilder, newest: int) -> None:
    """Waits for all of the thread's groups but so many of the newest. Others see them after a barrier."""
    kernel.b.call(_declared(kernel.b.module, "wait.group", ir.FunctionType(VOID, [I32])), [I32(newest)])


def _declared(module: ir.Module, name: str, kind: ir.FunctionType) -> ir.Function:
    full = f"llvm.nvvm.cp.async.{name}"
    return module.globals.get(full) or ir.Function(module, kind, full)
