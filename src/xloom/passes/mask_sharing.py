"""Masks of rectified values, out of what is kept of them anyway."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, register
from xloom.passes.match import splat
from xloom.passes.rewrite import Rewriter, RuleTable, rewrite

rule = RuleTable()


@register
class MaskSharing(Pass):
    """Compares max(x, 0) with 0 rather than x, which then is not kept from a network's forward to its backward half."""

    name = "mask-sharing"
    opcodes = rule.by_opcode

    def run(self, module: Module) -> bool:
        """See the class."""
        return rewrite(module, rule)


# (x > 0) == (max(x, 0) > 0); NaN too, which is not greater
@rule("compare")
def _of_rectified(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, zero = i.operands
    if i["direction"] != "GT" or i.attrs.get("type") == "TOTALORDER" or not _is_any_zero(zero):
        return None
    for user in x.users:
        if user.opcode == "maximum" and any(o is not x and _is_any_zero(o) for o in user.operands):
            return rw.make("compare", i.shape, [user, zero], **i.attrs)
    return None


def _is_any_zero(x: Instruction) -> bool:
    number = splat(x)
    return number is not None and not x.shape.dtype.is_complex and number == 0
