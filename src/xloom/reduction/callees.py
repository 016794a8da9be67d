"""A called computation becomes the entry, or a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.computation_inlining import inline
from xloom.passes.loops import is_element
from xloom.reduction.base import Reduction, Site, forget_signature, outputs_of, set_outputs
from xloom.reduction.substitution import zeros


@dataclass(frozen=True)
class CalleeAsEntry(Reduction):
    """Leaves what a computation computes, and nothing of its callers. A site is its number, the largest one first."""

    name: ClassVar[str] = "enter callee"
    together: ClassVar[bool] = False

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        others = [(len(c), -k) for k, c in enumerate(module.computations) if c is not module.entry]
        return [(-k,) for _, k in sorted(others, reverse=True)]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        ((number,),) = sites
        forget_signature(module)
        module.entry = module.computations[number]


@dataclass(frozen=True)
class CalleeBeside(Reduction):
    """What a reduction, sort or loop of the entry calls is computed once instead, of parameters: (caller, callee).

    Who reads the caller reads zeros.
    """

    name: ClassVar[str] = "call once"
    together: ClassVar[bool] = False

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        return [(k, n) for k, i in enumerate(module.entry.instructions) for n in range(len(i.called_computations))]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        ((k, n),) = sites
        entry = module.entry
        caller = entry.instructions[k]
        callee = caller.called_computations[n]
        first = len(entry.parameters)
        given = [
            entry.add(Instruction("given", "parameter", p.shape, (), {"parameter_number": first + number}))
            for number, p in enumerate(callee.parameters)
        ]
        call = entry.add(Instruction("call", "call", callee.root.shape, given, {"to_apply": callee}))
        outputs = [o for o in outputs_of(module) if o is not caller]
        for part in [user for user in caller.users if is_element(user, caller)]:
            part.replace_all_uses_with(zeros(entry, part.shape))
        set_outputs(module, [*outputs, call])
        if caller.shape.is_array:
            caller.replace_all_uses_with(zeros(entry, caller.shape))
        inline(call, callee)
