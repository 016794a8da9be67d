"""Peephole rewriting: small rules by opcode, applied from a worklist until none fires.

A rule is `rule(instruction, rewriter) -> Instruction | None`: an instruction of the same shape that computes the same
value (an old one, or one made with `rewriter.make`), the instruction itself if the rule edited it in place, or None.
Each rule must bring its instruction closer to a normal form, or rewriting would not end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape
from xloom.passes.base import instructions_of, pin_roots
from xloom.passes.dce import remove_keeping_order
from xloom.passes.effects import Effects

Rule = Callable[[Instruction, "Rewriter"], "Instruction | None"]

_CONTRACTS = frozenset({"custom-call", "async-start"})


class RuleTable:
    """Rules by the opcode that they look at. A table called with opcodes is the decorator that adds a rule."""

    def __init__(self, *tables: RuleTable):
        self.by_opcode: dict[str, list[Rule]] = {}
        for table in tables:
            for opcode, rules in table.by_opcode.items():
                self.by_opcode.setdefault(opcode, []).extend(rules)

    def __call__(self, *opcodes: str) -> Callable[[Rule], Rule]:
        """Registers a rule for each of `opcodes`."""

        def add(rule: Rule) -> Rule:
            for opcode in opcodes:
                self.by_opcode.setdefault(opcode, []).append(rule)
            return rule

        return add


class Rewriter:
    """Makes the instructions that rules return; they join the computation at once, and die if nothing uses them."""

    def __init__(self, computation: Computation):
        self.computation = computation
        self.fresh: list[Instruction] = []

    def make(self, opcode: str, shape: Shape, operands: Sequence[Instruction] = (), **attrs: Any) -> Instruction:
        """A new instruction, named after its opcode."""
        new = self.computation.add(Instruction(opcode, opcode, shape, operands, attrs))
        self.fresh.append(new)
        return new

    def once(self, opcode: str, shape: Shape, operand: Instruction, **attrs: Any) -> Instruction:
        """What does this to `operand` alone: an instruction that is there already, or a new one."""
        for user in operand.users:
            if user.opcode == opcode and user.shape == shape and user.attrs == attrs and user.operands == (operand,):
                return user
        return self.make(opcode, shape, [operand], **attrs)

    def constant(self, shape: Shape, value: Any) -> Instruction:
        """A constant; `value` is an array of the shape's NumPy dtype, or a scalar for every element of it."""
        array = np.broadcast_to(np.asarray(value).astype(shape.dtype.numpy), shape.dims)
        return self.make("constant", shape, literal=Literal(shape, array))

    def splat(self, shape: Shape, value: Any) -> Instruction:
        """An array of equal elements: a scalar constant, broadcast unless `shape` is a scalar."""
        scalar = self.constant(array_shape(shape.dtype, ()), value)
        return scalar if shape.is_scalar else self.make("broadcast", shape, [scalar], dimensions=())

    def converted(self, x: Instruction, dtype: DType) -> Instruction:
        """`x` itself where it is of that type."""
        return x if x.shape.dtype is dtype else self.make("convert", x.shape.with_dtype(dtype), [x])

    def sum_of(self, dtype: DType) -> Computation:
        """A new computation: x + y."""
        return self.combiner("sum", "add", dtype)

    def combiner(self, name: str, opcode: str, dtype: DType) -> Computation:
        """A new computation of that name: an operator of two scalars."""
        module = self.computation.module
        assert module is not None
        scalar = array_shape(dtype, ())
        body = module.add(Computation(name))
        body.execution_thread = self.computation.execution_thread
        x, y = (body.add(Instruction(n, "parameter", scalar, (), {"parameter_number": k})) for k, n in enumerate("xy"))
        body.root = body.add(Instruction(opcode, opcode, scalar, [x, y]))
        return body


def rewrite(module: Module, rules: RuleTable, *, dynamic: bool = False) -> bool:
    """Applies `rules` in every editable computation; True if one fired. Time is linear in the number of rewrites.

    Instructions that wait for others (control dependencies) are left alone, and those that touch shapes with dynamic
    dimensions too, unless `dynamic` says that the rules hold for them.
    """
    pin_roots(module)
    changed = False
    effects = Effects()
    for computation in editable_computations(module):
        changed |= _rewrite(computation, rules.by_opcode, effects, dynamic)
    return changed


def editable_computations(module: Module) -> list[Computation]:
    """The computations whose instructions a pass may choose, callees first.

    Not those that custom code or an asynchronous wrapper looks at.
    """
    computations = module.computations
    contracts = {
        callee
        for computation in computations
        for instruction in computation
        if instruction.opcode in _CONTRACTS
        or (instruction.opcode == "fusion" and instruction.attrs.get("kind") == "kCustom")
        for callee in instruction.called_computations
    }
    return [c for c in callees_first(computations) if c not in contracts]


def _rewrite(computation: Computation, rules: dict[str, list[Rule]], effects: Effects, dynamic: bool) -> bool:
    rewriter = Rewriter(computation)
    queue = deque(instructions_of(computation, rules))
    waiting = set(queue)
    changed = False

    def wake(instruction: Instruction) -> None:
        if instruction.opcode in rules and instruction not in waiting:
            waiting.add(instruction)
            queue.append(instruction)

    while queue:
        old = queue.popleft()
        waiting.discard(old)
        if old.parent is not computation or _is_frozen(old, dynamic):
            continue
        for rule in rules[old.opcode]:
            rewriter.fresh.clear()
            new = rule(old, rewriter)
            if new is None or not _fits(old, new, rewriter.fresh):
                if rewriter.fresh:
                    _remove_unused(reversed(rewriter.fresh), effects, wake)
                continue
            changed = True
            for instruction in rewriter.fresh:
                instruction.metadata = old.metadata
                instruction.frontend_attributes = dict(old.frontend_attributes)
                wake(instruction)
            for user in old.users:
                wake(user)
            if new is old:
                wake(old)
            else:
                if new in rewriter.fresh:
                    new.sharding = old.sharding
                old.replace_all_uses_with(new)
                _remove_unused([*reversed(rewriter.fresh), old], effects, wake)
            break
    return changed


def _is_frozen(instruction: Instruction, dynamic: bool) -> bool:
    if instruction._predecessors or instruction._successors:
        return True
    return not dynamic and (instruction.shape.is_dynamic or any([o.shape.is_dynamic for o in instruction._operands]))


def _fits(old: Instruction, new: Instruction, fresh: list[Instruction]) -> bool:
    """True when `new` may stand for `old`: same shape and layout, and no sharding is lost."""
    if new is old:
        return True
    return new.shape == old.shape and (old.sharding is None or new in fresh or new.sharding == old.sharding)


def _remove_unused(start: Any, effects: Effects, wake: Callable[[Instruction], None]) -> None:
    """Removes those of `start` that are unused, then operands that this leaves unused; wakes other users of those."""
    stack = list(start)
    while stack:
        instruction = stack.pop()
        if instruction.parent is None or not instruction.is_dead or instruction.opcode == "parameter":
            continue
        if effects.of(instruction):
            continue
        operands = instruction.operands
        remove_keeping_order(instruction)
        for operand in operands:
            wake(operand)
            stack.append(operand)
