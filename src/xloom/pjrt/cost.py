"""What a program costs, roughly."""

from __future__ import annotations

import math

from xloom.codegen.buffer_values import leaf_shapes
from xloom.codegen.ops import OP_ROWS, Trait, having
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.cost import flops
from xloom.hlo.cost_analysis import BYTES, FLOPS, TRANSCENDENTALS, cost_analysis, of_memory
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.interpreter.custom_call import BUILT_IN
from xloom.passes.loops import counted_trips
from xloom.pjrt.execution_mode import ExecutionMode

# to hand a program over to another thread, and to hear of its end, takes 50 to 300 µs on the host, the more the longer
# its threads have slept: a good part of the time in which the host's cores do this much
CHEAP_BYTES = 1 << 25
CHEAP_OPERATIONS = 1 << 26
_ARRAYS = 128
"""How many arguments and results take that time once more."""
_SMALL_BYTES = 1 << 18
"""How large the arrays may be of calls, whose time may grow faster than those."""

_ROUTINES = ("lapack_", "cu_lu_")
"""Beginnings of names of calls that do nothing but compute."""

_WAITS = having(Trait.WAITS)
_VIRTUAL = having(Trait.VIRTUAL)
_SLOW = having(Trait.IRREGULAR) | {name for name, row in OP_ROWS.items() if row.cost > 1}
_SLOWNESS = 8
_SORT, _FFT, _TOP, _PRODUCT = 12, 2, 24, 0.25
"""Operations an element: of sorts and Fourier transforms for each time that their length is halved; of products, how
many one of theirs counts for."""
_READS_PART = having(Trait.READS_PART)


def analysis(module: Module, memory: CompiledMemoryStats) -> dict[str, float]:
    """The cost of a run by XLA's names, all of it as one fusion, which reads the arguments and writes the results."""
    found = cost_analysis(module)
    moved = of_memory([p.shape.nbytes for p in module.entry.parameters], memory.result_bytes)
    moved[BYTES] = memory.argument_bytes + memory.result_bytes
    arithmetic = {name: found[name] for name in (FLOPS, TRANSCENDENTALS, "optimal_seconds") if name in found}
    return {**arithmetic, **{name: float(size) for name, size in moved.items() if size}}


def execution_mode(module: Module, memory: CompiledMemoryStats) -> ExecutionMode:
    """What suits a program of native code: cheap is of whose time it would take a good part to hand it over."""
    arrays = len(module.entry.parameters) + len(leaf_shapes(module.entry.root.shape))
    times = 1 + arrays / _ARRAYS
    calls = {i["custom_call_target"] for i in module.instructions if i.opcode == "custom-call"} - BUILT_IN.keys()
    read = memory.peak_bytes - _unread(module)
    if read > times * CHEAP_BYTES:
        return ExecutionMode.ASYNCHRONOUS
    known: dict[Computation, float] = {}
    unknown: list[Instruction] = []
    for computation in callees_first([module.entry]):
        known[computation] = sum(_work(i, known, unknown) for i in computation)
    may_wait = any(not name.startswith(_ROUTINES) for name in calls)
    if known[module.entry] > times * CHEAP_OPERATIONS or (unknown and may_wait):
        return ExecutionMode.ASYNCHRONOUS
    return (
        ExecutionMode.BY_RUN_LENGTH if unknown or (calls and read > times * _SMALL_BYTES) else ExecutionMode.SYNCHRONOUS
    )


def is_cheap(module: Module, memory: CompiledMemoryStats) -> bool:
    """True for programs that are never handed over."""
    return execution_mode(module, memory) is ExecutionMode.SYNCHRONOUS


def _unread(module: Module) -> int:
    """Bytes of arguments of which the program reads only parts."""
    found = 0
    for parameter in module.entry.parameters:
        users = list(parameter.users)
        if users and all(u.opcode in _READS_PART and u.operands[0] is parameter for u in users):
            found += max(0, parameter.shape.nbytes - sum(u.shape.nbytes for u in users))
    return found


def _work(instruction: Instruction, known: dict[Computation, float], unknown: list[Instruction]) -> float:
    """Operations of an instruction, with what is `known` of computations; infinite of what waits.

    Loops of which it is not known how often they run count once, and are put into `unknown`.
    """
    opcode = instruction.opcode
    if opcode in _WAITS:
        return math.inf
    if opcode == "while":
        trips = counted_trips(instruction)
        if trips is None:
            unknown.append(instruction)
        return (1 if trips is None else trips) * known[instruction["body"]]
    if opcode in ("call", "fusion", "conditional", "async-start"):
        return max((known[c] for c in instruction.called_computations), default=0)
    return _operations(instruction)


def _operations(instruction: Instruction) -> float:
    opcode, shape = instruction.opcode, instruction.shape
    if opcode in _SPECIAL:
        return _SPECIAL[opcode](instruction)
    if opcode in _VIRTUAL or not shape.is_array:
        return flops(instruction)
    count = max(flops(instruction), shape.size)
    return count * _SLOWNESS if opcode in _SLOW else count


def _sort(instruction: Instruction) -> float:
    operands = [o.shape for o in instruction.operands]
    length = operands[0].dims[instruction["dimensions"][0]]
    return _SORT * sum(shape.size for shape in operands) * length.bit_length()


def _fourier(instruction: Instruction) -> float:
    return _FFT * instruction.operands[0].shape.size * sum(n.bit_length() for n in instruction["fft_length"])


def _factor(instruction: Instruction) -> float:
    return instruction.shape.size * instruction.operands[0].shape.dims[-1]


_SPECIAL = {
    "sort": _sort,
    "fft": _fourier,
    "cholesky": _factor,
    "triangular-solve": _factor,
    "dynamic-update-slice": lambda i: i.operands[1].shape.size,
    "topk": lambda i: _TOP * i.operands[0].shape.size,
    "dot": lambda i: _PRODUCT * flops(i),
    "convolution": lambda i: _PRODUCT * flops(i),
}
