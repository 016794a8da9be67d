"""What a program costs, roughly."""

from __future__ import annotations

from xloom.cpu.executable import Memory
from xloom.hlo.cost import flops
from xloom.hlo.module import Module

CHEAP_BYTES = 1 << 18
CHEAP_FLOPS = 1 << 20
_UNBOUNDED = frozenset({"while", "infeed", "outfeed", "send", "recv", "sort", "fft", "cholesky"})
"""What takes longer than its operands tell, or waits for somebody."""


def analysis(module: Module, memory: Memory) -> dict[str, float]:
    """By XLA's names: `flops`, `bytes accessed`."""
    return {
        "flops": float(sum(flops(i) for i in module.entry.instructions)),
        "bytes accessed": float(memory.argument_bytes + memory.result_bytes),
    }


def is_cheap(module: Module, memory: Memory) -> bool:
    """True for programs that take about as long as it takes another thread to begin with them."""
    if memory.peak_bytes > CHEAP_BYTES or any(i.opcode in _UNBOUNDED for i in module.instructions):
        return False
    return sum(flops(i) for i in module.instructions) <= CHEAP_FLOPS
