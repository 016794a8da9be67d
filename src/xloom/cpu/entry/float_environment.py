"""How the processor computes with floats while a program runs, whichever thread runs it.

It rounds to nearest, traps nothing, and keeps denormals, or takes them for 0 where the target says so. At the end the
thread has its own setting again; the pool's threads take over that of the program. Processors of which no setting is
known here run programs with what the thread has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from llvmlite import ir

from xloom.llvm.loop import allocate
from xloom.llvm.target import Target
from xloom.llvm.types import I32, I64, POINTER, VOID


class _Setting(NamedTuple):
    """A processor's setting: how code reads and writes it, and what of its bits matters to programs."""

    read: Callable[[ir.IRBuilder], ir.Value]
    write: Callable[[ir.IRBuilder, ir.Value], None]
    cleared: int
    """The direction of rounding, what traps, and all that says of denormals."""
    given: int
    flushes: int
    """Denormal operands are 0, and denormal results."""


def entry_function(body: ir.Function, name: str, target: Target) -> None:
    """Makes the function `name` that calls `body`, which nothing else does from now on, in a program's setting.

    They are two: LLVM would move arithmetic across the change of a setting that is in the same function.
    """
    body.linkage = "internal"
    body.attributes.add("noinline")
    function = ir.Function(body.module, body.ftype, name)
    function.attributes.add("nounwind")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    setting = _X86 if target.is_x86 else _ARM if target.is_arm else None
    if setting is None:
        b.ret(b.call(body, function.args))
        return
    found = setting.read(b)
    given = setting.given | (setting.flushes if target.flushes_denormals else 0)
    setting.write(b, b.or_(b.and_(found, found.type(~setting.cleared)), found.type(given)))
    outcome = b.call(body, function.args)
    setting.write(b, found)
    b.ret(outcome)


def _read_x86(b: ir.IRBuilder) -> ir.Value:
    place = allocate(b, I32)
    b.call(_declared(b, "llvm.x86.sse.stmxcsr", ir.FunctionType(VOID, [POINTER])), [place])
    return b.load(place, typ=I32)


def _write_x86(b: ir.IRBuilder, value: ir.Value) -> None:
    place = allocate(b, I32)
    b.store(value, place)
    b.call(_declared(b, "llvm.x86.sse.ldmxcsr", ir.FunctionType(VOID, [POINTER])), [place])


def _read_arm(b: ir.IRBuilder) -> ir.Value:
    return b.call(_declared(b, "llvm.aarch64.get.fpcr", ir.FunctionType(I64, [])), [])


def _write_arm(b: ir.IRBuilder, value: ir.Value) -> None:
    b.call(_declared(b, "llvm.aarch64.set.fpcr", ir.FunctionType(VOID, [I64])), [value])


def _declared(b: ir.IRBuilder, name: str, kind: ir.FunctionType) -> ir.Function:
    return b.module.globals.get(name) or ir.Function(b.module, kind, name)


_X86 = _Setting(_read_x86, _write_x86, cleared=0xE040, given=0x1F80, flushes=0x8040)
"""MXCSR."""
_ARM = _Setting(_read_arm, _write_arm, cleared=0x01C8_9F03, given=0, flushes=0x0100_0000)
"""FPCR. Those of half precision, which it has a bit of their own for, are kept, as on x86."""
