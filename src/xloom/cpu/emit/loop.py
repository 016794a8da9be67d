"""Loops in LLVM IR."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from xloom.cpu.emit.types import I64, POINTER


@contextmanager
def loop(
    b: ir.IRBuilder, begin: ir.Value | int, end: ir.Value | int, step: int = 1, name: str = "i"
) -> Iterator[ir.Value]:
    """`for (i64 i = begin; i < end; i += step)`; the body is what is emitted in the `with`.

    The test is at the top, so that empty ranges run nothing. Values of the body are not seen after it: keep what is
    needed in an `alloca`, which LLVM turns into registers.
    """
    first = begin if isinstance(begin, ir.Value) else I64(begin)
    last = end if isinstance(end, ir.Value) else I64(end)
    before = b.block
    head, body, done = (b.append_basic_block(f"{name}.{part}") for part in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(I64, name)
    i.add_incoming(first, before)
    b.cbranch(b.icmp_signed("<", i, last), body, done)
    b.position_at_end(body)
    yield i
    following = b.add(i, I64(step), flags=["nsw", "nuw"] if step > 0 else ["nsw"])
    i.add_incoming(following, b.block)
    b.branch(head)
    b.position_at_end(done)


def allocate(b: ir.IRBuilder, kind: ir.Type, count: int | None = None, name: str = "") -> ir.Value:
    """Stack memory of one `kind`, or of `count`, made once at the function's entry."""
    entry = b.function.entry_basic_block
    with b.goto_block(entry):
        b.position_at_start(entry)
        slot = b.alloca(kind if count is None else ir.ArrayType(kind, count), name=name)
    slot.type = POINTER  # loads and stores say what they are of
    return slot
