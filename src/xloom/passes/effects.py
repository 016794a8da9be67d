"""Which instructions do more than give a value, so that passes may not remove, duplicate or merge them."""

from __future__ import annotations

from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import CALLERS, Instruction
from xloom.hlo.opcodes import OPCODES

WITH_EFFECTS = frozenset(name for name, row in OPCODES.items() if row.has_effect)
"""The opcodes of instructions with an effect, whatever their attributes are."""
_ENDS_ASYNC = frozenset({"async-update", "async-done"})


class Effects:
    """Answers for one module, remembering computations. Ask a new one after a pass has changed called computations."""

    def __init__(self) -> None:
        self._computations: dict[Computation, bool] = {}

    def of(self, instruction: Instruction) -> bool:
        """True when running `instruction` has an effect beside its value, in computations that it calls included."""
        while instruction.opcode in _ENDS_ASYNC:
            instruction = instruction.operands[0]
        opcode = instruction.opcode
        if opcode in WITH_EFFECTS or (opcode == "custom-call" and instruction.attrs.get("custom_call_has_side_effect")):
            return True
        return opcode in CALLERS and any(self.of_computation(c) for c in instruction.called_computations)

    def of_computation(self, computation: Computation) -> bool:
        """True when any instruction of `computation` has an effect."""
        for callee in callees_first([computation], self._computations):
            self._computations[callee] = any(self.of(i) for i in callee)
        return self._computations[computation]
