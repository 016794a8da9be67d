"""Constant folding: what depends on constants only is evaluated now, by the interpreter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xloom.errors import XloomError
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape
from xloom.interpreter.evaluator import Evaluator
from xloom.interpreter.registry import Value
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.dce import remove_keeping_order
from xloom.passes.folding_limits import Foldable
from xloom.passes.match import is_constant
from xloom.passes.rewrite import editable_computations

_STAYS = frozenset({"broadcast", "constant", "get-tuple-element", "iota", "parameter", "tuple"})


@register
@dataclass(frozen=True)
class ConstantFolding(Pass):
    """Replaces instructions whose operands are constants (or broadcasts of constants) by their value.

    Within a budget: no constant of more than `max_elements` elements is made, and evaluation stops after about
    `max_work` elementary steps a module. Broadcasts and iotas stay, since they are smaller than their values.
    """

    name = "constant-folding"
    opcodes = ("constant",)
    max_elements: int = 65536
    max_work: int = 1 << 24

    def run(self, module: Module) -> bool:
        """See the class."""
        pin_roots(module)
        evaluator, foldable = Evaluator(module), Foldable()
        left: float = self.max_work
        changed = False
        for computation in editable_computations(module):
            for instruction in computation.post_order():
                if not self._wanted(instruction):
                    continue
                work = foldable.work(instruction)
                if work > left:
                    continue
                left -= work
                try:
                    value = evaluator.apply(instruction, [_value(o, evaluator) for o in instruction.operands])
                except XloomError:
                    continue  # it fails at run time in the same way, if it runs at all
                changed |= _replace(computation, instruction, value)
        return changed

    def _wanted(self, instruction: Instruction) -> bool:
        if instruction.opcode in _STAYS or instruction.has_control_dependencies:
            return False
        if not instruction.operands or not all(is_constant(o) for o in instruction.operands):
            return False
        return sum(leaf.size for _, leaf in instruction.shape.leaves()) <= self.max_elements


def _value(instruction: Instruction, evaluator: Evaluator) -> Value:
    if instruction.opcode == "constant":
        return instruction.literal.value
    return evaluator.apply(instruction, [_value(instruction.operands[0], evaluator)])


def _replace(computation: Computation, old: Instruction, value: Value) -> bool:
    """Puts constants in the place of `old`, or of the elements taken from it; True if there were any."""
    if old.shape.is_array:
        return _put_constant(computation, old, value)
    changed = False
    for user in old.users:
        if user.opcode == "get-tuple-element" and user.shape.is_array:
            changed |= _put_constant(computation, user, value[user["index"]])
    return changed


def _put_constant(computation: Computation, old: Instruction, value: Value) -> bool:
    array = np.asarray(value, dtype=old.shape.dtype.numpy)
    if array.shape != old.shape.dims:
        return False  # the shape written is not the one that follows; the verifier's business
    if array.size > 1 and _is_uniform(array):
        one = array_shape(old.shape.dtype, ())
        number = computation.add(_constant(one, array.reshape(-1)[0]))
        new = computation.add(Instruction("broadcast", "broadcast", old.shape, (number,), {"dimensions": ()}))
    else:
        new = computation.add(_constant(old.shape, array))
    new.metadata, new.sharding = old.metadata, old.sharding
    old.replace_all_uses_with(new)
    dead = [old]
    while dead:
        instruction = dead.pop()
        if instruction.parent is not None and instruction.is_dead:
            operands = instruction.operands
            remove_keeping_order(instruction)
            dead.extend(o for o in operands if is_constant(o))
    return True


def _constant(shape: Shape, value: np.ndarray) -> Instruction:
    return Instruction("constant", "constant", shape, (), {"literal": Literal(shape, np.asarray(value))})


def _is_uniform(array: np.ndarray) -> bool:
    """True when all elements have the same bits."""
    elements = np.frombuffer(array.tobytes(), np.uint8).reshape(array.size, -1)
    return bool((elements == elements[0]).all())
