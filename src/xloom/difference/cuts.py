"""Parts of a module, which give other values of it. Instructions keep their names."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, results_shape
from xloom.passes.dce import DeadCodeElimination
from xloom.reduction.base import forget_signature


def observing(module: Module, instructions: Sequence[Instruction]) -> Module:
    """The module with these instructions of its entry as its results, in a tuple, and without what they do not need."""
    cut = module.clone("")
    places = {i: k for k, i in enumerate(module.entry.instructions)}
    found = [cut.entry.instructions[places[i]] for i in instructions]
    forget_signature(cut)
    shape = results_shape([i.shape for i in found])
    if len(found) == 1:
        cut.entry.root = found[0]
    else:
        cut.entry.root = cut.entry.add(Instruction("observed", "tuple", shape, found))
    DeadCodeElimination().run(cut)
    return cut


def entered(module: Module, computation: Computation) -> Module:
    """The module with a computation as its entry, whose parameters are arrays: tuples are put together of them."""
    cut = module.clone("")
    entry = cut.entry = cut.computations[module.computations.index(computation)]
    forget_signature(cut)
    number = 0

    def made(shape: Shape) -> Instruction:
        nonlocal number
        if shape.is_tuple:
            return entry.add(Instruction("given", "tuple", shape, [made(s) for s in shape.elements]))
        number += 1
        return entry.add(Instruction("given", "parameter", shape, (), {"parameter_number": number - 1}))

    entry.root = entry.root
    parameters = entry.parameters
    for parameter in parameters:
        parameter.attrs["parameter_number"] = -1
    for parameter in parameters:
        parameter.replace_all_uses_with(made(parameter.shape))
        entry.remove(parameter)
    DeadCodeElimination().run(cut)
    return cut
