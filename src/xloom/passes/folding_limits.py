"""Which instructions may be evaluated at compile time, and about how much work that is."""

from __future__ import annotations

import math

from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction

_AT_RUN_TIME = frozenset(
    {
        # hidden state, the device's identity, other code
        "custom-call",
        "partition-id",
        "replica-id",
        "rng-bit-generator",
        # tokens and markers
        "add-dependency",
        "after-all",
        "domain",
        "opt-barrier",
        # wrappers
        "async-done",
        "async-start",
        "async-update",
        "copy-done",
        "copy-start",
        # may never end
        "while",
        # the meaning depends on memory layout
        "bitcast",
        # run-time sizes
        "dynamic-reshape",
        "set-dimension-size",
    }
)
_NAMES = frozenset({"constant", "get-tuple-element", "parameter", "tuple"})  # values that exist already


class Foldable:
    """Answers for one module, remembering computations."""

    def __init__(self) -> None:
        self._computations: dict[Computation, float] = {}

    def work(self, instruction: Instruction) -> float:
        """Elementary steps of evaluating it once, roughly; infinite when that must wait for run time."""
        if instruction.opcode in _AT_RUN_TIME or instruction.op.has_effect or instruction.shape.is_dynamic:
            return math.inf
        if instruction.opcode in _NAMES:
            return 1
        elements = _size(instruction) + sum(_size(o) for o in instruction.operands)
        if instruction.opcode == "dot":
            lhs = instruction.operands[0].shape
            elements += _size(instruction) * math.prod(lhs.dims[d] for d in instruction["lhs_contracting_dims"])
        elif instruction.opcode == "convolution":
            elements += _size(instruction) * _size(instruction.operands[1])
        elif instruction.opcode == "reduce-window":
            elements += _size(instruction) * math.prod(w.size for w in instruction["window"])
        return elements * (1 + sum(self.work_of_computation(c) for c in instruction.called_computations))

    def work_of_computation(self, computation: Computation) -> float:
        """Elementary steps of evaluating `computation` once; infinite when part of it must wait for run time."""
        for callee in callees_first([computation], self._computations):
            self._computations[callee] = sum(self.work(i) for i in callee)
        return self._computations[computation]


def _size(instruction: Instruction) -> int:
    return sum(leaf.size for _, leaf in instruction.shape.leaves() if leaf.is_array)
