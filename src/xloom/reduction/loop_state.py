"""Elements of a loop's state, and tuples that are taken apart again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import tuple_shape
from xloom.passes.loops import element_of, is_element
from xloom.reduction.base import Places, Reduction, Site, UnfitError, forget_signature, host, numbered
from xloom.reduction.substitution import zeros


@dataclass(frozen=True)
class LoopState(Reduction):
    """Drops an element of a loop's state: (computation, loop, element).

    The body reads zeros for it, and who reads it after the loop gets what it was before.
    """

    name: ClassVar[str] = "drop loop state"
    together: ClassVar[bool] = False

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        return [
            (c, k, element)
            for c, k, i in numbered(module)
            if i.opcode == "while" and i.shape.is_tuple
            for element in range(len(i.shape.elements))
        ]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        ((c, k, element),) = sites
        loop = Places(module).at(c, k)
        if loop is module.entry.root:
            forget_signature(module)
        drop_element(loop, element)


def drop_element(loop: Instruction, number: int) -> None:
    """Raises UnfitError where the condition reads the element, or the state is read as a whole."""
    body, condition = loop["body"], loop["condition"]
    (state,) = body.parameters
    (tested,) = condition.parameters
    whole = [u for owner in (loop, state, tested) for u in owner.users if not is_element(u, owner)]
    if (
        whole
        or (loop.is_root and not host(loop).is_entry)
        or body.root.opcode != "tuple"
        or len(loop.shape.elements) == 1
    ):
        raise UnfitError
    if any(u["index"] == number for u in tested.users):
        raise UnfitError
    init = loop.operands[0]
    count = len(loop.shape.elements)
    initial = list(init.operands) if init.opcode == "tuple" else [element_of(init, k) for k in range(count)]
    for part in [u for u in loop.users if u["index"] == number]:
        host(loop).replace(part, initial[number])
    for part in [u for u in state.users if u["index"] == number]:
        body.replace(part, zeros(body, part.shape))
    shape = tuple_shape([e for k, e in enumerate(loop.shape.elements) if k != number])
    rest = [o for k, o in enumerate(initial) if k != number]
    loop.replace_operand(0, host(loop).add(Instruction("state", "tuple", shape, rest)))
    results = [o for k, o in enumerate(body.root.operands) if k != number]
    body.root = body.add(Instruction("state", "tuple", shape, results))
    for owner in (loop, state, tested):
        owner.shape = shape
        for part in owner.users:
            if part["index"] > number:
                part.attrs["index"] -= 1


@dataclass(frozen=True)
class TupleElements(Reduction):
    """get-tuple-element(tuple(x, ...)) -> x: (computation, instruction)."""

    name: ClassVar[str] = "take tuples apart"

    def sites(self, module: Module) -> list[Site]:
        """See Reduction."""
        return [
            (c, k)
            for c, k, i in numbered(module)
            if i.opcode == "get-tuple-element" and i.operands[0].opcode == "tuple"
        ]

    def apply(self, module: Module, sites: Sequence[Site]) -> None:
        """See Reduction."""
        places = Places(module)
        for c, k in sites:
            part = places.at(c, k)
            part.replace_all_uses_with(part.operands[0].operands[part["index"]])
