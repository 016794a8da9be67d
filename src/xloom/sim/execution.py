"""Programs on a device: the interpreter's rules, on arrays in the device's memory."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xloom.calls import registry
from xloom.calls.program_run import ProgramRun
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.interpreter.custom_call import BUILT_IN
from xloom.interpreter.evaluator import Evaluator
from xloom.interpreter.registry import RULES, Value
from xloom.sim.custom_call import InStream, call_on_device
from xloom.sim.device_values import copied, nbytes
from xloom.sim.memory import DeviceMemoryError
from xloom.sim.unsupported import place
from xloom.trace import span

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

    def __init__(self, device: Simulator, module: Module, stream: Stream, seed: int = 0):
        rules = ChainMap(dict(device.rules), RULES)
        super().__init__(module, seed=seed, rules=rules)
        self.device = device
        self.calls = ProgramRun(InStream(device.memory, stream.handle))
        # evaluates an operator's regions, which are part of it
        self.inner = Evaluator(module, seed=seed, rules=rules)
        self._last_uses: dict[Computation, list[tuple[Instruction, list[Instruction]]]] = {}

    def call(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """See Evaluator."""
        values: dict[Instruction, Value] = {}
        for instruction, finished in self._schedule(computation):
            if instruction.opcode == "parameter":
                values[instruction] = arguments[instruction["parameter_number"]]
            else:
                values[instruction] = self.apply(instruction, [values[o] for o in instruction.operands])
            for operand in finished:
                del values[operand]
        return values[computation.root]

    def apply(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """See Evaluator."""
        if instruction.opcode in _NO_WORK:
            return super().apply(instruction, operands)
        metadata = instruction.metadata
        with span(instruction.name, "kernel", opcode=instruction.opcode, op_name=metadata.op_name):
            try:
                result = self._made(instruction, operands)
            except DeviceMemoryError as error:
                error.where = error.where or place(instruction)
                raise
            self.device.spend(instruction.opcode, nbytes(tuple(operands)) + nbytes(result))
        return result

    def _made(self, instruction: Instruction, operands: Sequence[Value]) -> Value:
        """The result of one operator, in device memory."""
        target = instruction.attrs.get("custom_call_target")
        if target is None:
            value = self.inner.apply(instruction, operands)
        elif target in BUILT_IN and not registry.is_registered(target, self.device.platform):
            value = BUILT_IN[target](instruction, operands, self.inner)
        else:
            return call_on_device(self.device, self.calls, instruction, operands)
        return copied(value, self.device.memory.allocate)

    def _schedule(self, computation: Computation) -> list[tuple[Instruction, list[Instruction]]]:
        """The instructions in order, each with the values that are dead after it."""
        known = self._last_uses.get(computation)
        if known is None:
            scheduled = self.module.config.is_scheduled and computation.module is self.module
            order = list(computation.instructions) if scheduled else computation.post_order()
            last: dict[Instruction, Instruction] = {}
            for instruction in order:
                last.update({value: instruction for value in (instruction, *instruction.operands)})
            last.pop(computation.root, None)
            finished: dict[Instruction, list[Instruction]] = {instruction: [] for instruction in order}
            for value, user in last.items():
                finished[user].append(value)
            known = self._last_uses[computation] = [(i, finished[i]) for i in order]
        return known
