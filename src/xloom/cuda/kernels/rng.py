"""Random numbers of a hidden state: a 128-bit counter in a device's memory, which every run moves on.

One kernel has the state, whatever program it is for: it is loaded once for all of them.
"""

from __future__ import annotations

from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cpu.kernels.random.rng_bit_generator import philox_blocks
from xloom.cuda.kernel import WARP, KernelBuilder
from xloom.cuda.kernels import kernel
from xloom.cuda.kernels.item_threads import ItemKernels
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.instruction import Instruction
from xloom.llvm.types import I64, POINTER

_SEED = 0x7012395
"""Any number: the first state of a device."""


@kernel("rng-get-and-update-state")
def rng_get_and_update_state(lowering: ThunkLowering, instruction: Instruction) -> None:
    """The counter's (high, low) words, before it advances by delta."""
    _advance(lowering, instruction["delta"], lowering.scratch(16), lowering.output())


@kernel("rng")
def rng(lowering: ThunkLowering, instruction: Instruction) -> None:
    """As the processor's kernel, whose first phase is the counter's."""
    items = ItemKernels(lowering, instruction)
    (start,) = items.scratch
    _advance(lowering, philox_blocks(instruction.shape), start, lowering.scratch(16))
    items.launch(first=1)


def _advance(lowering: ThunkLowering, delta: int, words: BufferAllocation, turned: BufferAllocation) -> None:
    """Adds to the counter. Its low and high words before go to `words`, and the other way around to `turned`."""
    k = KernelBuilder(lowering.target, 3, WARP, "the counter of random numbers, by one thread")
    b, kind = k.b, ir.ArrayType(I64, 2)
    state = ir.GlobalVariable(k.module, kind, "rng_state", addrspace=1)
    state.linkage, state.initializer, state.align = "internal", ir.Constant(kind, [_SEED, 0]), 16
    with b.if_then(b.icmp_signed("==", k.thread, I64(0))):
        counter = b.addrspacecast(state, POINTER)
        added = [b.load(_word(b, k.pointers[0], n), typ=I64) for n in range(2)]
        low = b.atomic_rmw("add", counter, added[0], "monotonic")
        carry = b.zext(b.icmp_unsigned("<", b.add(low, added[0]), low), I64)
        high = b.atomic_rmw("add", _word(b, counter, 1), b.add(carry, added[1]), "monotonic")
        for n, word in enumerate((low, high)):
            b.store(word, _word(b, k.pointers[1], n))
            b.store(word, _word(b, k.pointers[2], 1 - n))
    given = BufferAllocation("code", 16, data=(delta % (1 << 128)).to_bytes(16, "little"))
    lowering.launch(k.finished(), 1, [given, words, turned])


def _word(b: ir.IRBuilder, pointer: ir.Value, number: int) -> ir.Value:
    return b.gep(pointer, [I64(number)], inbounds=True, source_etype=I64)
