"""Some instructions of a program as a module of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction, map_called
from xloom.hlo.module import Module
from xloom.hlo.shape import results_shape


class Excerpt(NamedTuple):
    """A module, and what its parameters and results are in the program that it is taken from."""

    module: Module
    operands: list[Instruction]
    outputs: list[Instruction]
    """The elements of the module's result, which is a tuple unless there is one."""


def excerpt(instructions: Sequence[Instruction], name: str, outputs: Sequence[Instruction] = ()) -> Excerpt:
    """A module that computes instructions of one computation, which come operands first.

    All arrays are row-major. Its results are `outputs`; or else those of them that others use, or that are the
    computation's own.
    """
    inside = set(instructions)
    operands = list(dict.fromkeys(o for i in instructions for o in i.operands if o not in inside))
    results = list(outputs) or [i for i in instructions if i.is_root or not inside.issuperset(i.users)]
    module, entry = Module(name), Computation(f"{name}.entry")
    values: dict[Instruction, Instruction] = {}
    for number, operand in enumerate(operands):
        shape = operand.shape.with_default_layout()
        values[operand] = entry.add(Instruction(f"p{number}", "parameter", shape, (), {"parameter_number": number}))
    clones: dict[Computation, Computation] = {}
    for instruction in instructions:
        new = values[instruction] = entry.add(instruction.clone([values[o] for o in instruction.operands]))
        for callee in callees_first(instruction.called_computations):
            if callee not in clones:
                clone = clones[callee] = callee.clone("", module)
                for each in clone:
                    map_called(each, clones.__getitem__)
        map_called(new, clones.__getitem__)
        new.shape = new.shape.with_default_layout()
    roots = [values[o] for o in results]
    if len(roots) != 1:
        shape = results_shape([r.shape for r in roots])
        roots = [entry.add(Instruction("results", "tuple", shape, roots))]
    entry.root = roots[0]
    module.add(entry, entry=True)
    host = instructions[0].parent
    module.stack_frames = host.module.stack_frames if host is not None and host.module is not None else None
    return Excerpt(module, operands, results)
