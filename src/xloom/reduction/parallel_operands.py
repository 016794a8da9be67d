"""Operands of one of several things that an operator does at once: of a sort by keys with values, of a reduction, of a
scan that carries several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import results_shape, tuple_shape
from xloom.passes.loops import is_element
from xloom.reduction.base import Places, Reduction, Site, UnfitError, host, numbered, outputs_of, set_outputs
from xloom.reduction.substitution import zeros

_SCATTER_INDICES = 1
"""Operands of a scatter between its arrays and their updates."""


@dataclass(frozen=True)
class ParallelOperands(Reduction):
    """A sort, reduction, scatter or map does one thing less: (computation, instruction, which)."""

    name: ClassVar[str] = "drop operands"
    together: ClassVar[bool] = False

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        return [(c, k, n) for c, k, i in numbered(module) if (count := _count(i)) > 1 for n in range(count)]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        ((c, k, number),) = sites
        instruction = Places(module).at(c, k)
        count = _count(instruction)
        _own_callee(module, instruction)
        _shorten(instruction["to_apply"], _numbers_of_parameters(instruction.opcode, count, number), number)
        left = [o for n, o in enumerate(instruction.operands) if n not in _numbers(instruction.opcode, count, number)]
        if instruction.opcode == "map":
            instruction.set_operands(left)
            return
        shape = results_shape([e for n, e in enumerate(instruction.shape.elements) if n != number])
        less = host(instruction).add(instruction.clone(left, shape=shape))
        _read_instead(module, instruction, less, number)


@dataclass(frozen=True)
class ScanCarries(Reduction):
    """A scan carries one thing less from step to step, and so gives one less: (computation, instruction, which)."""

    name: ClassVar[str] = "drop carries"
    together: ClassVar[bool] = False

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        scans = [(c, k, i) for c, k, i in numbered(module) if i.opcode == "scan" and len(i.shape.elements) > 1]
        return [(c, k, n) for c, k, i in scans for n in range(i["num_carries"])]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        ((c, k, number),) = sites
        scan = Places(module).at(c, k)
        carries, operands = scan["num_carries"], len(scan.operands)
        operand, result = operands - carries + number, len(scan.shape.elements) - carries + number
        _own_callee(module, scan)
        _shorten(scan["to_apply"], {operand}, result)
        left = [o for n, o in enumerate(scan.operands) if n != operand]
        shape = tuple_shape([e for n, e in enumerate(scan.shape.elements) if n != result])
        less = host(scan).add(scan.clone(left, shape=shape))
        less["num_carries"] = carries - 1
        _read_instead(module, scan, less, result)


def _own_callee(module: Module, instruction: Instruction) -> None:
    """What it calls is called by nothing else, and can be changed."""
    if len(module.callers()[instruction["to_apply"]]) > 1:
        instruction["to_apply"] = instruction["to_apply"].clone("", module)


def _count(instruction: Instruction) -> int:
    """How many things it does at once."""
    operands = len(instruction.operands)
    match instruction.opcode:
        case "sort" | "map":
            return operands
        case "reduce" | "reduce-window":
            return operands // 2
        case "scatter":
            return (operands - _SCATTER_INDICES) // 2
    return 1


def _numbers(opcode: str, count: int, number: int) -> set[int]:
    """Those of its operands."""
    if opcode in ("sort", "map"):
        return {number}
    return {number, count + number + (_SCATTER_INDICES if opcode == "scatter" else 0)}


def _numbers_of_parameters(opcode: str, count: int, number: int) -> set[int]:
    """Those of what it calls: a comparator has two of an operand side by side, what combines has all of a side."""
    match opcode:
        case "sort":
            return {2 * number, 2 * number + 1}
        case "map":
            return {number}
    return {number, count + number}


def _shorten(computation: Computation, parameters: set[int], result: int) -> None:
    """What reads these parameters reads zeros, and of several results one goes."""
    kept = 0
    root = computation.root
    if root.shape.is_tuple:
        if root.opcode != "tuple":
            raise UnfitError
        rest = [o for n, o in enumerate(root.operands) if n != result]
        shape = results_shape([o.shape for o in rest])
        computation.root = computation.add(root.clone(rest, shape=shape)) if len(rest) > 1 else rest[0]
        computation.remove(root)
    for number, parameter in enumerate(computation.parameters):
        if number in parameters:
            if not parameter.is_dead:
                parameter.replace_all_uses_with(zeros(computation, parameter.shape))
            computation.remove(parameter)
        else:
            parameter.attrs["parameter_number"] = kept
            kept += 1


def _read_instead(module: Module, old: Instruction, new: Instruction, number: int) -> None:
    """Who reads other results reads those of `new`, who reads this one zeros."""
    outputs = outputs_of(module)
    for part in old.users:
        if not is_element(part, old):
            continue
        if part["index"] == number:
            part.replace_all_uses_with(zeros(host(part), part.shape))
        elif not new.shape.is_tuple:
            part.replace_all_uses_with(new)
        else:
            part.replace_operand(0, new)
            part.attrs["index"] -= part["index"] > number
    if old in outputs:
        set_outputs(module, [new if o is old else o for o in outputs])
