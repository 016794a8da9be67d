"""What a reduction is: places of a module, and what is done at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import results_shape

Site = tuple[int, ...]
"""Numbers that say what is to be done and where: in most cases those of a computation and of an instruction in it."""


class UnfitError(Exception):
    """This cannot be done at these places."""


class Reduction:
    """One way to make a module smaller. A subclass is a frozen dataclass."""

    name: ClassVar[str]
    together: ClassVar[bool] = True
    """Whether it is worth trying at many places at once."""

    def sites(self, module: Module) -> list[Site]:
        """The places where it may be tried."""
        raise NotImplementedError(f"{type(self).__name__}.sites")

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """Changes `module` at all these places of it. Raises UnfitError, or leaves what the verifier rejects."""
        raise NotImplementedError(f"{type(self).__name__}.apply")


class Places:
    """The instructions of a module by the numbers that they have before it is changed."""

    def __init__(self, module: Module):
        self.computations = module.computations
        self._instructions = [c.instructions for c in self.computations]

    def at(self, computation: int, instruction: int) -> Instruction:
        """The instruction, which may have been removed since."""
        return self._instructions[computation][instruction]


def host(instruction: Instruction) -> Computation:
    """The computation that an instruction is in. Raises UnfitError if it is in none any more."""
    if instruction.parent is None:
        raise UnfitError
    return instruction.parent


def numbered(module: Module) -> list[tuple[int, int, Instruction]]:
    """Each instruction with the numbers of its computation and its own."""
    return [(c, k, i) for c, each in enumerate(module.computations) for k, i in enumerate(each.instructions)]


def forget_signature(module: Module) -> None:
    """Takes back what the header says of parameters and results, which are to change."""
    config = module.config
    config.input_output_alias, config.buffer_donors = [], []
    config.parameter_layouts = config.result_layout = None
    config.propagate_sharding_to_parameters = config.propagate_sharding_to_output = (False,)
    config.alias_passthrough_params = False


def outputs_of(module: Module) -> list[Instruction]:
    """The results of the entry, each once."""
    root = module.entry.root
    return list(dict.fromkeys(root.operands)) if root.opcode == "tuple" else [root]


def set_outputs(module: Module, outputs: Sequence[Instruction]) -> None:
    """Makes these the results of the entry: one of them, or a tuple."""
    forget_signature(module)
    entry = module.entry
    if len(outputs) == 1:
        entry.root = outputs[0]
    else:
        entry.root = entry.add(Instruction("results", "tuple", results_shape([o.shape for o in outputs]), outputs))
