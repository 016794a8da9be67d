"""Expansion of opcodes into others: each instruction is asked once, also those with effects or control dependencies,
which rewriting leaves alone."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import instructions_of, pin_roots
from xloom.passes.computation_inlining import with_layout
from xloom.passes.rewrite import Rewriter, RuleTable, editable_computations


def expand_ops(module: Module, rules: RuleTable) -> bool:
    """Asks the rules of each instruction's opcode once; True if one gave another value for it.

    A rule that returns None must not have made instructions. Operands must be replaced before their users are looked
    at, so a rule may look at what came of them.
    """
    pin_roots(module)
    changed = False
    for computation in editable_computations(module):
        rewriter = Rewriter(computation)
        for old in instructions_of(computation, rules.by_opcode):
            for rule in rules.by_opcode[old.opcode]:
                rewriter.fresh.clear()
                new = rule(old, rewriter)
                if new is not None:
                    _put(old, new, rewriter.fresh)
                    changed = True
                    break
    return changed


def _put(old: Instruction, new: Instruction, fresh: list[Instruction]) -> None:
    computation = old.parent
    assert computation is not None
    value = with_layout(new, old.shape, fresh)
    if value not in fresh and old.has_control_dependencies:
        # an operand cannot wait for what `old` waited for: that may need the operand
        value = computation.add(Instruction("copy", "copy", old.shape, [value]))
        fresh.append(value)
    for instruction in fresh:
        instruction.metadata = old.metadata
        instruction.frontend_attributes = {**old.frontend_attributes, **instruction.frontend_attributes}
    if value in fresh:
        value.sharding = old.sharding
        old.transfer_control_dependencies_to(value)
    old.replace_all_uses_with(value)
    computation.remove(old)
