"""Calls, fusions, branches and loops become what they call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import pin_roots
from xloom.passes.computation_inlining import inline
from xloom.reduction.base import Places, Reduction, Site, host, numbered

_NEVER = -1
"""Instead of the number of what is called: a loop that ends at once."""


@dataclass(frozen=True)
class Inlining(Reduction):
    """A call is what it calls, a conditional one of its branches, a loop its first state, or one run of its body."""

    name: ClassVar[str] = "inline"

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        found: list[Site] = []
        for c, k, instruction in numbered(module):
            if instruction.opcode in ("call", "fusion"):
                found.append((c, k, 0))
            elif instruction.opcode == "conditional":
                found += [(c, k, branch) for branch in range(len(instruction.called_computations))]
            elif instruction.opcode == "while":
                found += [(c, k, _NEVER), (c, k, 0)]
        return found

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        pin_roots(module)
        places = Places(module)
        for c, k, number in sites:
            instruction = places.at(c, k)
            if instruction.parent is None:
                continue  # a place where one thing was done already
            if number == _NEVER:
                host(instruction).replace(instruction, instruction.operands[0])
            else:
                inline_callee(instruction, number)


# conditional(c, x0, f0, x1, f1, ...) -> call(xn, fn); while(x) -> call(x, body)
def inline_callee(caller: Instruction, number: int = 0) -> None:
    """Puts what an instruction calls in its place: a called computation, a branch, a loop's body."""
    if caller.opcode == "conditional":
        operands, callee = [caller.operands[1 + number]], caller.called_computations[number]
    elif caller.opcode == "while":
        operands, callee = list(caller.operands), caller["body"]
    else:
        operands, callee = list(caller.operands), caller.called_computations[number]
    call = Instruction("call", "call", caller.shape, operands, {"to_apply": callee})
    host(caller).replace(caller, call)
    inline(call, callee)
