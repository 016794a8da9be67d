"""Bounded dynamic shapes as static ones: arrays at their bounds, and a size beside each dynamic dimension."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.computation import Computation
from xloom.hlo.dtype import s32
from xloom.hlo.dynamic_sizes import OF_SIZES, has_dynamic
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.interpreter.registry import Value
from xloom.passes.base import Pass, register
from xloom.passes.dynamic import RULES
from xloom.passes.dynamic.arrays import at_bounds, cut
from xloom.passes.dynamic.values import Emitter, Padded, dynamic_leaves, static, unsupported

SIZE = array_shape(s32, ())


@register
class DynamicPadding(Pass):
    """Gives every array of bounded dynamic size its bounds, and makes the sizes s32 scalars of the program.

    The entry takes one more parameter, and returns one more value, for each dynamic dimension of its parameters and
    its result: in the order of their leaves. Its result becomes a tuple of what it was and those sizes. Elements beyond
    a size are undefined, and masked where operators would see them.
    """

    name = "dynamic-padding"

    def run(self, module: Module) -> bool:
        """See the class."""
        if not has_dynamic(module):
            return False
        old = module.entry
        new = _Rewriter(module).entry(old)
        module.entry = new
        for computation in list(module.computations):
            if computation not in reachable(new):
                module.remove(computation)
        return True

    def arguments(self, before: Module, values: Sequence[Value]) -> list[Value]:
        """At their bounds, and their sizes."""
        return at_bounds(values, [p.shape for p in before.entry.parameters])

    def result(self, before: Module, value: Value) -> Value:
        """Cut to its sizes."""
        return cut(value, before.entry.root.shape)


def reachable(entry: Computation) -> set[Computation]:
    """The computations that `entry` calls, with itself."""
    found: set[Computation] = set()
    stack = [entry]
    while stack:
        computation = stack.pop()
        if computation not in found:
            found.add(computation)
            stack.extend(c for i in computation.instructions for c in i.called_computations)
    return found


class _Rewriter:
    def __init__(self, module: Module):
        self.module = module

    def entry(self, old: Computation) -> Computation:
        """The entry with sizes as parameters of their own."""
        new = Computation(old.name)
        emit = Emitter(self.module, new)
        parameters = old.parameters
        values: dict[Instruction, Padded] = {}
        for parameter in parameters:
            clone = new.add(parameter.clone(shape=static(parameter.shape)))
            values[parameter] = Padded(clone, {})
        count = len(parameters)
        for parameter in parameters:
            for leaf, dim in dynamic_leaves(parameter.shape):
                size = Instruction("size", "parameter", SIZE, (), {"parameter_number": count})
                values[parameter].sizes[leaf, dim] = new.add(size)
                count += 1
        result = self.body(old, emit, values)
        sizes = [emit.size_at(result, place, old.root.shape) for place in dynamic_leaves(old.root.shape)]
        parts = (result.value, *sizes)
        new.root = emit("tuple", tuple_shape([p.shape for p in parts]), parts)
        return self.module.add(new)

    def nested(self, old: Computation, shape: Shape) -> Computation:
        """A computation of one parameter, whose parameter and result are tuples of the value and its sizes."""
        new = Computation(old.name)
        emit = Emitter(self.module, new)
        (parameter,) = old.parameters
        packed = Instruction("packed", "parameter", emit.packed_shape(shape), (), {"parameter_number": 0})
        values = {parameter: emit.unpacked(new.add(packed), shape)}
        result = self.body(old, emit, values)
        plain = not old.root.shape.is_dynamic and not shape.is_dynamic
        predicate = old.root.shape.is_scalar and not old.root.shape.is_dynamic
        new.root = result.value if plain or predicate else emit.packed(result, old.root.shape)
        return self.module.add(new)

    def body(self, old: Computation, emit: Emitter, values: dict[Instruction, Padded]) -> Padded:
        """Emits everything; the root's value."""
        for instruction in old.post_order():
            if instruction in values:
                continue
            operands = [values[o] for o in instruction._operands]
            values[instruction] = self.instruction(instruction, operands, emit)
            for before in instruction.control_predecessors:
                values[instruction].value.add_control_predecessor(values[before].value)
        return values[old.root]

    def instruction(self, old: Instruction, operands: Sequence[Padded], emit: Emitter) -> Padded:
        """The static form of one instruction."""
        dynamic = old.shape.is_dynamic or old.opcode in OF_SIZES or any(o.sizes for o in operands)
        if not dynamic and not any(c for c in old.called_computations if _has_dynamic(c)):
            return Padded(emit.clone(old, [o.value for o in operands]), {})
        if old.opcode == "while":
            (state,) = operands
            body, condition = (self.nested(old[name], old.shape) for name in ("body", "condition"))
            packed = emit.packed(state, old.shape)
            value = emit("while", packed.shape, (packed,), {"body": body, "condition": condition})
            return emit.unpacked(value, old.shape)
        if old.opcode == "conditional":
            return self._conditional(old, operands, emit)
        rule = RULES.get(old.opcode) or (RULES["elementwise"] if old.op.elementwise else None)
        if rule is None:
            raise unsupported(old)
        return rule(emit, old, operands)

    def _conditional(self, old: Instruction, operands: Sequence[Padded], emit: Emitter) -> Padded:
        chooser, *arguments = operands
        branches = []
        inputs = []
        for branch, argument, operand in zip(old.called_computations, arguments, old._operands[1:], strict=True):
            branches.append(self._branch(branch, operand.shape, old.shape))
            inputs.append(emit.packed(argument, operand.shape))
        if "branch_computations" in old.attrs:
            attrs = {"branch_computations": tuple(branches)}
        else:
            attrs = {"true_computation": branches[0], "false_computation": branches[1]}
        shape = emit.packed_shape(old.shape)
        return emit.unpacked(emit("conditional", shape, (chooser.value, *inputs), attrs), old.shape)

    def _branch(self, old: Computation, taken: Shape, result: Shape) -> Computation:
        new = Computation(old.name)
        emit = Emitter(self.module, new)
        (parameter,) = old.parameters
        packed = Instruction("packed", "parameter", emit.packed_shape(taken), (), {"parameter_number": 0})
        value = self.body(old, emit, {parameter: emit.unpacked(new.add(packed), taken)})
        new.root = emit.packed(value, result)
        return self.module.add(new)


def _has_dynamic(computation: Computation) -> bool:
    return any(i.shape.is_dynamic for c in reachable(computation) for i in c.instructions)
