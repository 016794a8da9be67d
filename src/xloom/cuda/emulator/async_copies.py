"""Asynchronous copies of an emulated thread (cp.async): begun when asked for, and done as late as they may be.

The bytes arrive when the thread waits for their group. Until then whoever touches them is told so, and a copy that
no thread waits for never arrives.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.cuda.emulator import thread_context as at
from xloom.cuda.emulator.memory_checks import field, word
from xloom.cuda.emulator.thread_context import Access
from xloom.llvm.loop import allocate, loop
from xloom.llvm.types import I8, I32, I64, POINTER

_NO_VALUE = ir.Constant(POINTER, None)


def begin(b: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
    """copy_begin(context, copies, target, source, nbytes, read, site): of the bytes only `read` are, the rest are 0."""
    context, copies, target, source, nbytes, read, site = arguments
    access = b.module.globals["xloom_access"]
    given, size = allocate(b, POINTER), b.zext(nbytes, I64)
    b.store(source, given)
    with b.if_then(b.icmp_signed(">", read, I32(0))):
        taken = b.zext(read, I64), size
        b.store(b.call(access, [context, source, *taken, I32(Access.READ), site, _NO_VALUE]), given)
    safe = b.call(access, [context, target, size, size, I32(Access.COPY), site, _NO_VALUE])
    count = word(b, copies, at.COPIES)
    entry = _entry(b, copies, count)
    values = {
        at.COPY_TARGET: safe,
        at.COPY_SOURCE: b.load(given, typ=POINTER),
        at.COPY_SIZE: nbytes,
        at.COPY_READ: read,
        at.COPY_GROUP: word(b, copies, at.COPY_GROUPS),
        at.COPY_SITE: site,
    }
    for offset, value in values.items():
        b.store(value, field(b, entry, offset))
    # where there is no room for more, the last one is lost: its bytes never arrive, which is told
    with b.if_then(b.icmp_signed("<", count, I32(at.MOST_COPIES - 1))):
        b.store(b.add(count, I32(1)), field(b, copies, at.COPIES))


def commit(b: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
    """copy_commit(copies): what has begun since the last time is a group."""
    (copies,) = arguments
    b.store(b.add(word(b, copies, at.COPY_GROUPS), I32(1)), field(b, copies, at.COPY_GROUPS))


def wait(b: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
    """copy_wait(context, copies, newest): all groups arrive but so many of the newest."""
    context, copies, newest = arguments
    end = b.sub(word(b, copies, at.COPY_GROUPS), newest)
    kept = allocate(b, I32)
    b.store(I32(0), kept)
    with loop(b, I64(0), b.zext(word(b, copies, at.COPIES), I64)) as k:
        entry = _entry(b, copies, b.trunc(k, I32))
        arrives = b.icmp_signed("<", word(b, entry, at.COPY_GROUP), end)
        with b.if_else(arrives) as (then, otherwise):
            with then:
                _arrive(b, context, entry)
            with otherwise:
                here = _entry(b, copies, b.load(kept, typ=I32))
                with loop(b, 0, at.COPY_BYTES) as byte:
                    value = b.load(b.gep(entry, [byte], source_etype=I8), typ=I8)
                    b.store(value, b.gep(here, [byte], source_etype=I8))
                b.store(b.add(b.load(kept, typ=I32), I32(1)), kept)
    b.store(b.load(kept, typ=I32), field(b, copies, at.COPIES))


def _entry(b: ir.IRBuilder, copies: ir.Value, number: ir.Value) -> ir.Value:
    offset = b.add(b.mul(b.zext(number, I64), I64(at.COPY_BYTES)), I64(at.COPY_ENTRIES))
    return b.gep(copies, [offset], source_etype=I8)


def _arrive(b: ir.IRBuilder, context: ir.Value, entry: ir.Value) -> None:
    target, source = (b.load(field(b, entry, o), typ=POINTER) for o in (at.COPY_TARGET, at.COPY_SOURCE))
    nbytes, read = (b.zext(word(b, entry, o), I64) for o in (at.COPY_SIZE, at.COPY_READ))
    access = b.module.globals["xloom_access"]
    b.call(access, [context, target, nbytes, I64(1), I32(Access.ARRIVAL), word(b, entry, at.COPY_SITE), _NO_VALUE])
    value = allocate(b, I8)
    with loop(b, I64(0), nbytes) as byte:
        b.store(I8(0), value)
        with b.if_then(b.icmp_signed("<", byte, read)):
            b.store(b.load(b.gep(source, [byte], source_etype=I8), typ=I8), value)
        b.store(b.load(value, typ=I8), b.gep(target, [byte], source_etype=I8))
