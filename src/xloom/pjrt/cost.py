"""What a program costs, roughly."""

from __future__ import annotations

from xloom.cpu.executable import Memory
from xloom.cpu.leaves import leaf_shapes
from xloom.hlo.cost import flops
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module

# to hand a program over to another thread, and to hear of its end, takes some fifty microseconds on the host: the time
# in which the host's cores do about this much
CHEAP_BYTES = 1 << 23
CHEAP_OPERATIONS = 1 << 22
_ARRAYS = 24
"""How many arguments and results take that time once more."""
_SMALL_BYTES = 1 << 18
"""How large the arrays may be of operators whose time grows faster than those."""

_UNBOUNDED = frozenset({"while", "infeed", "outfeed", "send", "recv", "sort", "fft", "cholesky"})
"""What takes longer than its operands tell, or waits for somebody."""
_STEEP = frozenset({"custom-call", "triangular-solve", "topk"})
_FREE = frozenset({"parameter", "constant", "iota", "tuple", "get-tuple-element", "broadcast", "reshape", "bitcast"})
_SLOW = frozenset({"atan2", "cosine", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic"})
_SLOW |= {"cbrt", "divide", "gather", "power", "remainder", "scatter", "sine", "tan", "tanh", "transpose"}
_SLOWNESS = 8


def analysis(module: Module, memory: Memory) -> dict[str, float]:
    """By XLA's names: `flops`, `bytes accessed`."""
    return {
        "flops": float(sum(flops(i) for i in module.entry.instructions)),
        "bytes accessed": float(memory.argument_bytes + memory.result_bytes),
    }


def is_cheap(module: Module, memory: Memory) -> bool:
    """True for programs that take about as long as it takes another thread to begin with them."""
    opcodes = {i.opcode for i in module.instructions}
    arrays = len(module.entry.parameters) + len(list(leaf_shapes(module.entry.root.shape)))
    times = 1 + arrays / _ARRAYS
    if opcodes & _UNBOUNDED or memory.peak_bytes > times * (_SMALL_BYTES if opcodes & _STEEP else CHEAP_BYTES):
        return False
    return sum(map(_operations, module.instructions)) <= times * CHEAP_OPERATIONS


def _operations(instruction: Instruction) -> int:
    if instruction.opcode in _FREE or not instruction.shape.is_array:
        return flops(instruction)
    count = max(flops(instruction), instruction.shape.size)
    return count * _SLOWNESS if instruction.opcode in _SLOW else count
