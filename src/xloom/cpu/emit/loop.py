"""Loops in LLVM IR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from xloom.cpu.emit.registers import registers
from xloom.cpu.emit.sizes import Size
from xloom.cpu.emit.types import I1, I64, POINTER, i64

VECTOR_ONLY = ("llvm.loop.unroll.disable",)
"""For innermost loops of few but enough iterations: were they unrolled, an outer loop would be vectorised instead."""
PLAIN = ("llvm.loop.disable_nonforced",)
"""For loops that run seldom: left as they are, they cost little to compile."""
_MASKED = "llvm.loop.vectorize.predicate.enable"
_FEW = range(16, 128)


def hints_for(iterations: int) -> Sequence[str]:
    """Loop metadata for an innermost loop of so many iterations; longer ones LLVM would not unroll."""
    return VECTOR_ONLY if iterations in _FEW else ()


def masked_hints_for(iterations: int) -> Sequence[str]:
    """The same of a loop without branches that adds nothing up.

    Where the processor has masks, the last vector is one of fewer elements if that leaves few lanes idle: one at a
    time, these elements could take longer than all those before.
    """
    if iterations < _FEW.stop and iterations % 16 > 8 and registers().nbytes == 64:
        return (*VECTOR_ONLY, _MASKED)
    return hints_for(iterations)


class _LoopIdentity(ir.MDValue):
    """Loop metadata: a distinct node whose first operand is itself."""

    def __init__(self, module: ir.Module, hints: Sequence[str]):
        flags = [module.add_metadata([ir.MetaDataString(module, h), *([I1(1)] if h == _MASKED else [])]) for h in hints]
        super().__init__(module, [], name=str(len(module.metadata)))
        self.operands = (self, *flags)

    def descr(self, buf: list[str]) -> None:
        """The definition, as llvmlite prints it."""
        super().descr(buf)
        for k in range(len(buf) - 1, -1, -1):
            if buf[k].startswith("!{"):
                buf[k] = f"distinct {buf[k]}"
                return


@contextmanager
def loop(
    b: ir.IRBuilder,
    begin: ir.Value | int | Size,
    end: ir.Value | int | Size,
    step: int | Size = 1,
    name: str = "i",
    hints: Sequence[str] = (),
) -> Iterator[ir.Value]:
    """`for (i64 i = begin; i < end; i += step)`; the body is what is emitted in the `with`.

    The test is at the top, so that empty ranges run nothing. Values of the body are not seen after it: keep what is
    needed in an `alloca`, which LLVM turns into registers. `hints` are names of LLVM's loop metadata.
    """
    first, last = (x if isinstance(x, ir.Value) else i64(x) for x in (begin, end))
    following = i64(step)
    before = b.block
    head, body, done = (b.append_basic_block(f"{name}.{part}") for part in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    i = b.phi(I64, name)
    i.add_incoming(first, before)
    b.cbranch(b.icmp_signed("<", i, last), body, done)
    b.position_at_end(body)
    yield i
    down = isinstance(step, int) and step < 0
    i.add_incoming(b.add(i, following, flags=["nsw"] if down else ["nsw", "nuw"]), b.block)
    back = b.branch(head)
    if hints:
        back.set_metadata("llvm.loop", _LoopIdentity(b.module, hints))
    b.position_at_end(done)


def allocate(b: ir.IRBuilder, kind: ir.Type, count: int | None = None, name: str = "") -> ir.Value:
    """Stack memory of one `kind`, or of `count`, made once at the function's entry."""
    entry = b.function.entry_basic_block
    with b.goto_block(entry):
        b.position_at_start(entry)
        slot = b.alloca(kind if count is None else ir.ArrayType(kind, count), name=name)
    slot.type = POINTER  # loads and stores say what they are of
    return slot
