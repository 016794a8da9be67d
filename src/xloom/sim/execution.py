"""Programs on a device: the interpreter's rules, on arrays in the device's memory."""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xloom import trace
from xloom.calls.program_run import ProgramRun
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.stack_frames import place
from xloom.interpreter.custom_call import BUILT_IN
from xloom.interpreter.evaluator import Evaluator
from xloom.interpreter.registry import RULES, Value
from xloom.sim.custom_call import InStream, call_on_device
from xloom.sim.device_values import copied, nbytes
from xloom.sim.memory import DeviceMemory, DeviceMemoryError
from xloom.sim.native_group import NativeGroup
from xloom.sim.plan import Plan

if TYPE_CHECKING:
    from xloom.sim.simulator import Simulator
    from xloom.sim.stream import Stream

# these only say which work is done, or pass values on
_NO_WORK = frozenset(
    {
        "call",
        "fusion",
        "while",
        "conditional",
        "tuple",
        "get-tuple-element",
        "opt-barrier",
        "domain",
        "add-dependency",
        "after-all",
        "async-start",
        "async-update",
        "async-done",
    }
)


class DeviceEvaluator(Evaluator):
    """Evaluates a module; each operator's result is in device memory, until its last user is done."""

    def __init__(
        self,
        device: Simulator,
        plan: Plan,
        stream: Stream,
        seed: int = 0,
        memory: DeviceMemory | None = None,
        ready: int | None = None,
    ):
        """In `memory`, or else in the device's own. `ready` is the cycle at which arguments are, by default any."""
        rules = ChainMap(device.own_rules, RULES)
        super().__init__(plan.module, seed=seed, rules=rules)
        self.device, self.plan, self.stream = device, plan, stream
        self.memory = memory or device.memory
        self.calls = ProgramRun(InStream(device.memory, stream.handle))
        self._given = ready
        self._ready: dict[Instruction, int] = {}
        # evaluates an operator's regions, which are part of it
        self.inner = Evaluator(plan.module, seed=seed, rules=rules)

    def call(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """See Evaluator."""
        values: dict[Instruction, Value] = {}
        # computations, and so iterations of loops, begin when all before is done
        begin = self.device.ledger.timeline.elapsed
        if self._given is not None and computation is self.module.entry:
            begin = self._given
        self._ready.update(dict.fromkeys(computation.parameters, begin))
        for instruction, group, finished in self.plan.steps(computation):
            if group is not None:
                values.update(zip(group.outputs, self._together(group, values), strict=True))
            elif instruction is not None and instruction.opcode == "parameter":
                values[instruction] = arguments[instruction["parameter_number"]]
            elif instruction is not None:
                values[instruction] = self.apply(instruction, [values[o] for o in instruction.operands])
            for value in finished:
                del values[value]
        return values[computation.root]

    def apply(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """See Evaluator."""
        ledger = self.device.ledger
        if instruction.opcode in _NO_WORK:
            result = super().apply(instruction, operands)
            all_before = ledger.timeline.elapsed
            self._ready[instruction] = all_before if instruction.called_computations else self._begin(instruction)
            return result
        with ledger.of(instruction, self._begin(instruction)), self._in_trace(instruction.name, [instruction]):
            with _with_place(instruction):
                result = self._made(instruction, operands)
            read, written = nbytes(tuple(operands)), nbytes(result)
            if not self.device.is_own(instruction):
                self._charge(instruction, read, written)
            self.device.spend(instruction.opcode, read + written)
            self._ready[instruction] = ledger.timeline.done
        return result

    def _begin(self, instruction: Instruction) -> int:
        """The cycle at which the operands of an instruction are ready."""
        return max((self._ready.get(o, 0) for o in instruction.operands), default=0)

    def _made(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """The result of one operator, in device memory."""
        target = instruction.attrs.get("custom_call_target")
        if target is None:
            value = self.inner.apply(instruction, operands)
        elif target in self.device.fused_targets:
            value = self._fused(instruction, operands)
        elif self.device.is_own(instruction) or not (self.device.native or target in BUILT_IN):
            return call_on_device(self.device, self.calls, instruction, operands)
        else:  # the interpreter's, or the host's code
            value = self.inner.apply(instruction, operands)
        if instruction.opcode == "reshape" and self.memory.holds(value):
            return value
        return copied(value, self.memory.allocate)

    def _fused(self, call: Instruction, operands: Sequence[Value]) -> Value:
        """What a call carries, with all that comes between its operands and its results in the scratchpad."""
        device, scratchpad = self.device, self.device.scratchpad
        read = nbytes(tuple(operands))
        self._move_in(read)
        loaded = device.ledger.timeline.loaded
        inner = DeviceEvaluator(device, self.plan.carried[call], self.stream, memory=scratchpad, ready=loaded)
        value = inner.call(inner.module.entry, [copied(o, scratchpad.allocate) for o in operands])
        device.ledger.timeline.begin(max(inner._ready.values(), default=loaded))
        self._move_out(read, nbytes(value))
        return value

    def _together(self, group: NativeGroup, values: dict[Instruction, Value]) -> list[Value]:
        """The outputs of a group."""
        outputs, device = group.outputs, self.device
        with self._in_trace(", ".join(o.name for o in outputs), group.instructions):
            with _with_place(outputs[0]):
                made = group.run(values, self.memory.allocate)
            for instruction in group.instructions:
                with device.ledger.of(instruction, self._begin(instruction)):
                    read, written = group.reads[instruction], group.writes[instruction]
                    self._charge(instruction, read, written)
                    device.spend(instruction.opcode, read + written)
                    self._ready[instruction] = device.ledger.timeline.done
        return made

    def _charge(self, instruction: Instruction, read: int, written: int) -> None:
        self._move_in(read)
        for unit, cycles in self.device.cost(instruction).items() if instruction.opcode != "custom-call" else ():
            self.device.charge(unit, cycles)
        self._move_out(read, written)

    def _move_in(self, nbytes: int) -> None:
        device = self.device
        if nbytes and self.memory is not device.scratchpad:
            device.ledger.load("dma", device.dma_cycles(nbytes))

    def _move_out(self, read: int, nbytes: int) -> None:
        """Both ways are one transfer: its latency is in the way in, if there is one."""
        device = self.device
        if nbytes and self.memory is not device.scratchpad:
            paid = device.dma_cycles(read) if read else 0
            device.ledger.store("dma", device.dma_cycles(read + nbytes) - paid)

    @contextmanager
    def _in_trace(self, name: str, instructions: Sequence[Instruction]) -> Iterator[None]:
        taken, start, ledger = trace.active(), time.monotonic_ns(), self.device.ledger
        before = ledger.total.total() if taken is not None else 0
        yield
        if taken is not None:
            opcodes = " ".join(dict.fromkeys(i.opcode for i in instructions))
            op_name, cycles = instructions[-1].metadata.op_name, ledger.total.total() - before
            end = time.monotonic_ns()
            taken.add(name, "kernel", start, end, opcode=opcodes, op_name=op_name, cycles=cycles)


@contextmanager
def _with_place(instruction: Instruction) -> Iterator[None]:
    """Says of memory that is full where it was asked for."""
    try:
        yield
    except DeviceMemoryError as error:
        error.where = error.where or place(instruction)
        raise
