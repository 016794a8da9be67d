"""Rounding of narrow floats that are put in order, or whose bits are read: so they are equal to what is found there."""

from __future__ import annotations

from xloom.hlo.dtype import bf16, f16
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.opcodes import OPCODES
from xloom.passes.base import Pass, instructions_of, pin_roots, register
from xloom.passes.result_rounding import rounded
from xloom.passes.rewrite import Rewriter, editable_computations

_UNCHANGING = frozenset({
    "abs", "bitcast", "broadcast", "concatenate", "convert", "copy", "maximum", "minimum", "negate", "pad", "reshape",
    "reverse", "select", "slice", "transpose",
})  # fmt: skip
"""What gives elements of its operands, but for a sign or a wider type."""
_EXACT = _UNCHANGING | {"reduce-precision"}
_ARITHMETIC = [name for name, op in OPCODES.items() if op.elementwise and name not in _EXACT]
_REDUCTIONS = frozenset({"reduce", "reduce-window", "select-and-scatter"})
_ENOUGH = 64
"""Readers to look at; beyond them a rounding that was not needed costs less than the search."""


@register
class OrderedOperandRounding(Pass):
    """Rounds what operators on bf16 and f16 give, for others, where a maximum, a minimum or a sort reads it, too, or
    its bits are read.

    Backends may keep the f32 that they compute narrow floats in. What is found among them is stored, and so rounded:
    `x - max(x)` then is not zero at the greatest, if `x` has more digits there, nor `nextafter(x) - x` its spacing.
    """

    name = "ordered-operand-rounding"

    def run(self, module: Module) -> bool:
        """See the class."""
        pin_roots(module)
        changed = False
        for computation in editable_computations(module):
            for i in instructions_of(computation, _ARITHMETIC):
                if i.shape.dtype in (bf16, f16) and _is_ordered_and_read(i):
                    _round_for_others(i, Rewriter(computation))
                    changed = True
        return changed


# f(max(x), x) == f(max(x), reduce-precision(x)); the greatest is rounded as it is stored
def _round_for_others(x: Instruction, rw: Rewriter) -> None:
    users = [u for u in x.users if u.opcode not in _REDUCTIONS]
    new = rounded(x, rw)
    new.metadata = x.metadata
    for user in users:
        user.set_operands([new if o is x else o for o in user.operands])


def _is_ordered_and_read(x: Instruction) -> bool:
    """True where elements of `x` are put in order, and something else computes with them."""
    ordered = read = False
    found, following = {x}, [x]
    while following and not (ordered and read):
        for user in following.pop().users:
            if user.opcode in _UNCHANGING and user not in found:
                found.add(user)
                following.append(user)
            ordered |= _orders(user)
            read |= user.opcode not in _EXACT and user.opcode != "tuple" and not _orders(user)
        if len(found) > _ENOUGH:
            return True
    return ordered and read


def _orders(i: Instruction) -> bool:
    if i.opcode in ("sort", "topk", "bitcast-convert"):
        return True
    if i.opcode not in _REDUCTIONS:
        return False
    body = i["select" if i.opcode == "select-and-scatter" else "to_apply"]
    return any(b.opcode in ("maximum", "minimum", "compare") for b in body)
