"""Is a module the same as before it was outlined and expanded?"""

from xloom.hlo.module import Module
from xloom.hlo.parser import parse
from xloom.passes import run_passes
from xloom.passes.structure import Structure


def expanded(module: Module) -> Module:
    """A copy without custom calls that carry HLO."""
    copy = module.clone("")
    run_passes(copy, "expand")
    return copy


def same(one: Module, other: Module) -> bool:
    """True when two modules are equal up to names, tuples taken apart at once, and constants written twice."""
    structure = Structure()
    numbers = []
    for module in (one, other):
        # through text, so that a default that is written out is the same as one that is not
        copy = parse(module.to_text(print_large_constants=True))
        run_passes(copy, "tuple-simplification,cse,dce")
        numbers.append(structure.number(copy.entry))
    return numbers[0] == numbers[1]
