"""What a device does of a program, step by step: its own instructions, and groups of others as native code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.sim.native_group import NativeGroup

_RUNS = frozenset({"call", "while", "conditional", "fusion"})
_NEVER_NATIVE = frozenset(
    ("parameter", "tuple", "custom-call", "after-all", "add-dependency", "infeed", "outfeed", "send", "recv", "domain")
    + ("rng", "rng-get-and-update-state", "partition-id", "replica-id", "async-update", "opt-barrier")
    + ("all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute", "ragged-all-to-all")
    + ("reduce-scatter", "get-dimension-size", "set-dimension-size")
)
_MADE_ANYWHERE = frozenset({"constant", "iota"})
_VIEWS = frozenset({"reshape", "bitcast", "get-tuple-element"})


class Step(NamedTuple):
    """An instruction, or a group of them, and the values that nothing reads afterwards."""

    instruction: Instruction | None
    group: NativeGroup | None
    finished: list[Instruction]


class Plan:
    """The steps of each computation of a program that the device walks through."""

    def __init__(self, module: Module, is_own: Callable[[Instruction], bool], *, native: bool):
        """With `native`, what is not `is_own` is compiled for the CPU."""
        self.module = module
        self.carried: dict[Instruction, Plan] = {}
        """Of what fused kernels carry, by their calls."""
        self._is_own, self._native = is_own, native
        self._steps: dict[Computation, list[Step]] = {}
        self._has_own: dict[Computation, bool] = {}
        self._native_ones: dict[Instruction, bool] = {}
        if native:
            self._compile(module.entry)

    def steps(self, computation: Computation) -> list[Step]:
        """Those of a computation, in order."""
        known = self._steps.get(computation)
        if known is None:
            known = self._steps[computation] = self._made(computation)
        return known

    def _compile(self, computation: Computation) -> None:
        for step in self.steps(computation):
            if step.instruction is not None and step.instruction.opcode in _RUNS:
                for callee in step.instruction.called_computations:
                    self._compile(callee)

    def _made(self, computation: Computation) -> list[Step]:
        scheduled = self.module.config.is_scheduled and computation.module is self.module
        order = list(computation.instructions) if scheduled else computation.post_order()
        rows = self._rows(order) if self._native else [[instruction] for instruction in order]
        last: dict[Instruction, int] = {}
        groups = [NativeGroup(row, _beside(row)) if self._native and self._is_native(row[-1]) else None for row in rows]
        for number, (row, group) in enumerate(zip(rows, groups, strict=True)):
            read = row[0].operands if group is None else group.operands
            last.update(dict.fromkeys([*read, *(row if group is None else group.outputs)], number))
        last.pop(computation.root, None)
        finished: list[list[Instruction]] = [[] for _ in rows]
        for value, number in last.items():
            finished[number].append(value)
        return [
            Step(row[0] if group is None else None, group, dead)
            for row, group, dead in zip(rows, groups, finished, strict=True)
        ]

    def _rows(self, order: Sequence[Instruction]) -> list[list[Instruction]]:
        """The instructions in an order in which many that have native code come together.

        A group's level is how many of the device's own instructions come one after another before it; those whose
        operands are of a level come after its group.
        """
        level: dict[Instruction, int] = {}
        rows: dict[int, tuple[list[Instruction], list[list[Instruction]]]] = {}
        for instruction in order:
            if _is_made_anywhere(instruction) and not instruction.is_root:
                if self._is_read_by_others(instruction):
                    rows.setdefault(-1, ([], []))[1].append([instruction])
                    level[instruction] = -1
                continue
            is_native = self._is_native(instruction)
            known = [o for o in instruction.operands if o in level]
            after = [level[o] + (1 if is_native and not self._is_native(o) else 0) for o in known]
            level[instruction] = max(after, default=0 if is_native else -1)
            group, others = rows.setdefault(level[instruction], ([], []))
            (group if is_native else others).append(instruction if is_native else [instruction])  # type: ignore[arg-type]
        return [
            row
            for _, (group, others) in sorted(rows.items(), key=lambda item: item[0])
            for row in ([group] if group else []) + others
        ]

    def _is_read_by_others(self, instruction: Instruction) -> bool:
        """Whether what native code makes for itself where it is read is also read elsewhere."""
        return any(
            self._is_read_by_others(user) or user.is_root if _is_made_anywhere(user) else not self._is_native(user)
            for user in instruction.users
        )

    def _is_native(self, instruction: Instruction) -> bool:
        known = self._native_ones.get(instruction)
        if known is None:
            known = self._native_ones[instruction] = self._has_native_code(instruction)
        return known

    def _has_native_code(self, instruction: Instruction) -> bool:
        opcode, shape = instruction.opcode, instruction.shape
        if self._is_own(instruction) or opcode in _NEVER_NATIVE or _is_made_anywhere(instruction):
            return False
        if opcode in _VIEWS and not self._is_native(instruction.operands[0]):
            return False
        if opcode.endswith(("-start", "-done")):
            return False
        shapes = (shape, *(operand.shape for operand in instruction.operands))
        if any(not leaf.is_array or leaf.is_dynamic for each in shapes for _, leaf in each.leaves()):
            return False
        return not any(self._does_own(callee) for callee in instruction.called_computations)

    def _does_own(self, computation: Computation) -> bool:
        """Whether any instruction in it is for the device."""
        known = self._has_own.get(computation)
        if known is None:
            known = self._has_own[computation] = any(
                self._is_own(i)
                or (i.opcode in _NEVER_NATIVE and i.opcode not in ("parameter", "tuple"))
                or any(map(self._does_own, i.called_computations))
                for i in computation
            )
        return known


def _beside(instructions: Sequence[Instruction]) -> list[Instruction]:
    """What these read of what is made anywhere, operands first."""
    found: dict[Instruction, None] = {}

    def read(instruction: Instruction) -> None:
        for operand in instruction.operands:
            if _is_made_anywhere(operand) and operand not in found:
                read(operand)
                found[operand] = None

    for instruction in instructions:
        read(instruction)
    return list(found)


def _is_made_anywhere(instruction: Instruction) -> bool:
    """Whether each group that reads it makes it again: what comes of no argument, and costs nothing."""
    if instruction.opcode == "broadcast":
        return _is_made_anywhere(instruction.operands[0])
    return instruction.opcode in _MADE_ANYWHERE
