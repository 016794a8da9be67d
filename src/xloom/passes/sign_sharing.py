"""Signs of operands, taken after what is computed of them."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, register
from xloom.passes.rewrite import Rewriter, RuleTable, rewrite

_ODD = ("asin", "asinh", "atanh", "cbrt", "erf", "sine", "sinh", "tan", "tanh")
_EVEN = ("cosh", "cosine")

rule = RuleTable()


@register
class SignSharing(Pass):
    """Negates floats as late as it can: what is computed of -x and of x is computed once, as for N(d) and N(-d).

    The values stay, bit for bit.
    """

    name = "sign-sharing"
    opcodes = ("negate",)

    def run(self, module: Module) -> bool:
        """See the class."""
        return rewrite(module, rule)


# -x * y == -(x * y);  -x / y == -(x / y);  x / -y == -(x / y); roundings are symmetric
@rule("multiply", "divide")
def _of_product(i: Instruction, rw: Rewriter) -> Instruction | None:
    if not i.shape.dtype.is_float or all(x.opcode != "negate" for x in i.operands):
        return None
    a, b = (x.operands[0] if x.opcode == "negate" else x for x in i.operands)
    found = rw.make(i.opcode, i.shape, [a, b])
    return found if i.operands[0].opcode == i.operands[1].opcode else rw.make("negate", i.shape, [found])


# f(-x) == -f(x) of odd functions, f(-x) == f(x) of even ones
@rule(*_ODD, *_EVEN)
def _of_function(i: Instruction, rw: Rewriter) -> Instruction | None:
    x = i.operands[0]
    if x.opcode != "negate" or not i.shape.dtype.is_float:
        return None
    found = rw.make(i.opcode, i.shape, [x.operands[0]], **i.attrs)
    return rw.make("negate", i.shape, [found]) if i.opcode in _ODD else found
