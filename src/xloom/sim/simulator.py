"""A simulated accelerator: memory of its own, copies to and from it, streams, and the operators it has."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from xloom.calls.buffers import ALIGNMENT
from xloom.calls.registry import is_registered, unregistered
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.interpreter.custom_call import BUILT_IN
from xloom.interpreter.registry import Rule, Value
from xloom.interpreter.values import from_argument, miscounted
from xloom.passes import run_passes
from xloom.passes.carried_hlo import carried_module, carries_hlo
from xloom.passes.expand import Expand
from xloom.passes.outline import Outline
from xloom.reentry import check_device
from xloom.sim.device_values import copied, for_host, nbytes, on_device
from xloom.sim.execution import DeviceEvaluator
from xloom.sim.ledger import Ledger
from xloom.sim.memory import DeviceMemory
from xloom.sim.operator import bound_rule, has_type, methods_of
from xloom.sim.plan import Plan
from xloom.sim.stream import Stream
from xloom.sim.tolerance import Tolerance, usual
from xloom.sim.unsupported import check_taken

_numbers = count()
_PLAIN = "inlining,call-inlining,tuple-simplification,algebraic-simplification,cse,dce"
"""What patterns are looked for in: without calls, nothing twice."""


class Simulator:
    """A device that runs HLO by the interpreter's rules.

    A backend is a subclass, and says by class attributes what its device is: the `platform` that custom calls are
    registered for, the `opcodes` that it takes besides parameters, constants, tuples and custom calls (None: all), the
    `rules` by which its numbers differ from the interpreter's, its memory, and how long work takes.
    """

    platform: ClassVar[str] = "sim"
    opcodes: ClassVar[frozenset[str] | None] = None
    rules: ClassVar[Mapping[str, Rule]] = {}
    native: ClassVar[bool] = False
    """Whether code of the CPU's does what the device has no rule for, natively in groups, and custom calls of the host;
    else the interpreter does."""
    passes: ClassVar[str] = ""
    """A pipeline that programs go through first, as text."""
    fused: ClassVar[tuple[str, ...]] = ()
    """Patterns, as `outline` takes them, whose matches are one kernel each: what comes between their operands and their
    results is in the scratchpad, if there is room for it."""
    memory_bytes: int = 1 << 30
    scratchpad_bytes: int = 1 << 20
    latency: float = 0.0
    """Seconds that a transfer or an operator takes at least."""

    def __init__(self, *, memory_bytes: int | None = None, latency: float | None = None):
        if latency is not None:
            self.latency = latency
        self.memory = DeviceMemory(self.memory_bytes if memory_bytes is None else memory_bytes)
        self.scratchpad = DeviceMemory(self.scratchpad_bytes)
        self.ledger = Ledger()
        """The cycles that were charged, by instruction and unit."""
        self.own_rules = {**self.rules, **{o: bound_rule(self, n) for o, n in methods_of(type(self)).items()}}
        """What the device computes its own operators with, by opcode."""
        self.fused_targets = {f"{self.platform}.{Path(pattern).stem}": pattern for pattern in self.fused}
        """The patterns of fused kernels, by the targets of their calls."""
        self._plans: WeakKeyDictionary[Module, Plan] = WeakKeyDictionary()
        self.name = f"{self.platform}:{next(_numbers)}"
        """What messages call this device."""
        self.stream = Stream(self.platform)
        """The one that is meant where none is named."""

    # -- what a backend may change besides
    def takes(self, instruction: Instruction) -> bool:
        """True when the device has this instruction. `opcodes` decides; a backend may look at shapes and types."""
        return self.opcodes is None or instruction.opcode in self.opcodes

    def prepare(self, module: Module) -> Module:
        """A copy of `module` in the form that the device takes.

        It has gone through `passes`, and matches of `fused` are calls. Custom calls that carry HLO, and for whose
        target the device has no code or no room, are replaced by what they carry.
        """
        module = module.clone("")
        run_passes(module, ",".join(filter(None, (self.passes, _PLAIN if self.fused else ""))), verify=False)
        for target, pattern in self.fused_targets.items():
            run_passes(module, [Outline(pattern, target, escaping=True)], verify=False)
        for instruction in module.instructions:
            if instruction.attrs.get("custom_call_target") in self.fused_targets and not self._has_room(instruction):
                instruction["custom_call_target"] += ".large"
        while targets := {
            i["custom_call_target"] for i in module.instructions if carries_hlo(i) and not self.is_own(i)
        }:
            for target in sorted(targets):
                run_passes(module, [Expand(target)], verify=False)
        return module

    def cost(self, instruction: Instruction) -> Mapping[str, int]:
        """Cycles, by unit, of an operator that no method of the device computes."""
        return {}

    def dma_cycles(self, nbytes: int) -> int:
        """Cycles that a transfer between the device's memory and its scratchpad takes."""
        return 0

    def seconds(self, work: str, nbytes: int) -> float:
        """How long `work` takes: an opcode, `to_device` or `to_host`, that reads and writes so many bytes."""
        return self.latency

    def tolerance(self, instruction: Instruction) -> Tolerance:
        """How far the value of an instruction of `prepare`'s may be from the CPU's where these are compared."""
        return usual(instruction)

    # -- what its methods say
    def charge(self, unit: str, cycles: int) -> None:
        """Adds cycles that a unit computes to the account of the instruction that runs.

        They begin when the unit is free and what was loaded so far is there; see Timeline.
        """
        self.ledger.charge(unit, cycles)

    def load(self, array: np.ndarray, dtype: Any = None) -> np.ndarray:
        """A copy in the scratchpad, of another type if asked. Cycles of the unit `dma` are charged, unless it is there.

        Raises DeviceMemoryError where there is no room.
        """
        if not self.scratchpad.holds(array):
            self.ledger.load("dma", self.dma_cycles(array.nbytes))
        kind = array.dtype if dtype is None else np.dtype(dtype)
        copy = self.scratchpad.allocate(array.size * kind.itemsize).view(kind).reshape(array.shape)
        copy[...] = array
        return copy

    def store(self, array: np.ndarray) -> np.ndarray:
        """The array itself. Cycles of the unit `dma` are charged for its way to the device's memory."""
        self.ledger.store("dma", self.dma_cycles(array.nbytes))
        return array

    # -- what it does
    def is_own(self, instruction: Instruction) -> bool:
        """Whether the device has code of its own for an instruction: a rule, a custom call, a fused kernel."""
        target = instruction.attrs.get("custom_call_target")
        if target is None:
            return instruction.opcode in self.own_rules and has_type(self, instruction)
        return target in self.fused_targets or is_registered(target, self.platform)

    def planned(self, program: Module) -> Plan:
        """The steps that the device does of a program that `prepare` gave, with native code made."""
        known = self._plans.get(program)
        if known is None:
            known = self._plans[program] = Plan(program, self.is_own, native=self.native)
            for instruction in program.instructions:
                if instruction.attrs.get("custom_call_target") in self.fused_targets:
                    known.carried[instruction] = self.planned(carried_module(instruction))
        return known

    def _has_room(self, call: Instruction) -> bool:
        """Whether all arrays of what a call carries fit into half of the scratchpad: methods load into the rest."""
        leaves = (leaf for i in carried_module(call).instructions for _, leaf in i.shape.leaves() if leaf.is_array)
        return sum(-(-leaf.nbytes // ALIGNMENT) * ALIGNMENT for leaf in leaves) <= self.scratchpad.nbytes // 2

    def check(self, module: Module) -> None:
        """Raises UnsupportedError with all instructions that the device has not, CustomCallError for calls alone."""
        known = frozenset(BUILT_IN).union(self.fused_targets)
        calls = unregistered(module, self.platform, known)
        if calls and self.native:
            of_host = {error.where for error in unregistered(module, known=known)}
            calls = [error for error in calls if error.where in of_host]
        check_taken(module, self.platform, self.takes, self.opcodes or (), calls)

    def run(self, module: Module, *arguments: Any, seed: int = 0) -> Value:
        """The program's result on the host: arguments are copied to the device, the result is copied back."""
        program = self.prepare(module)
        self.check(program)
        parameters = program.entry.parameters
        if len(arguments) != len(parameters):
            raise miscounted(module.name, [(p.name, p.shape) for p in parameters], len(arguments))
        values = [from_argument(a, p.shape, p.name) for a, p in zip(arguments, parameters, strict=True)]
        stream = Stream(self.platform)
        given = [self.to_device(value, stream) for value in values]
        return self.to_host(self.execute(program, given, stream, seed=seed), stream).result()

    def execute(
        self, program: Module, arguments: list[Future[Value]], stream: Stream | None = None, *, seed: int = 0
    ) -> Future[Value]:
        """Enqueues a program that `prepare` gave and `check` accepted; arguments and result are on the device."""
        check_device(self.name, program.name)
        stream = stream or self.stream
        return stream.enqueue(lambda: self.call(program, [a.result() for a in arguments], stream, seed=seed))

    def to_device(self, value: Value, stream: Stream | None = None) -> Future[Value]:
        """Enqueues a copy of an array, or of tuples of them, to the device."""
        return (stream or self.stream).enqueue(lambda: self.copy_in(value))

    def to_host(self, value: Future[Value], stream: Stream | None = None) -> Future[Value]:
        """Enqueues a copy of what is on the device to the host."""
        return (stream or self.stream).enqueue(lambda: self.copy_out(value.result()))

    # -- the same, in the caller's thread
    def call(
        self, program: Module, arguments: Sequence[Value], stream: Stream | None = None, *, seed: int = 0
    ) -> Value:
        """Runs what `execute` enqueues."""
        evaluator = DeviceEvaluator(self, self.planned(program), stream or self.stream, seed)
        return for_host(evaluator.call(program.entry, [on_device(argument) for argument in arguments]))

    def copy_in(self, value: Value) -> Value:
        """A copy of an array, or of tuples of them, on the device. Raises DeviceMemoryError when that is full."""
        self.spend("to_device", nbytes(value))
        return for_host(copied(value, self.memory.allocate))

    def copy_out(self, value: Value) -> Value:
        """A copy on the host of what is on the device."""
        seen = on_device(value)
        self.spend("to_host", nbytes(seen))
        return _to_heap(seen)

    def spend(self, work: str, nbytes: int) -> None:
        """Takes the time that `work` takes."""
        seconds = self.seconds(work, nbytes)
        if seconds > 0:
            time.sleep(seconds)


def _to_heap(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(_to_heap(v) for v in value)
    return value.copy() if isinstance(value, np.ndarray) else value
