"""An entry whose arrays lie in any order of dimensions, as one of row-major arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.interpreter.registry import Value
from xloom.passes.base import Pass, pin_roots, register


@register
class RowMajorEntry(Pass):
    """Makes the entry take and give row-major arrays that are byte for byte those of its layout.

    An array in another order of dimensions becomes one with its dimensions in that order, transposed inside. Arrays in
    nested tuples and those of dynamic size stay as they are.
    """

    name = "row-major-entry"

    def run(self, module: Module) -> bool:
        """See the class."""
        if not has_permuted_entry(module):
            return False
        pin_roots(module)
        entry, config = module.entry, module.config
        taken, given = module.parameter_shapes, module.result_shape
        for parameter, shape in zip(entry.parameters, taken, strict=True):
            if shape.is_permuted:
                _take(entry, parameter, shape.major_to_minor)
        _give(entry, given)
        config.parameter_layouts = [s.in_memory() for s in taken]
        config.result_layout = given.in_memory()
        return True

    def arguments(self, before: Module, values: Sequence[Value]) -> list[Value]:
        """With their dimensions in the order in which they lie."""
        shapes = before.parameter_shapes
        return [v.transpose(s.major_to_minor) if s.is_permuted else v for v, s in zip(values, shapes, strict=True)]

    def result(self, before: Module, value: Value) -> Value:
        """With its dimensions in their order."""
        shape = before.result_shape
        if shape.is_tuple:
            return tuple(_back(v, s) for v, s in zip(value, shape.elements, strict=True))
        return _back(value, shape)


def _back(value: Value, shape: Shape) -> Value:
    return value.transpose(np.argsort(shape.major_to_minor)) if shape.is_permuted else value


def has_permuted_entry(module: Module) -> bool:
    """True when there is something for the pass to do."""
    result = module.result_shape
    results = result.elements if result.is_tuple else [result]
    return any(s.is_permuted for s in [*module.parameter_shapes, *results])


def _take(entry: Computation, parameter: Instruction, order: Sequence[int]) -> None:
    shape = parameter.shape
    dims = [shape.dims[d] for d in order]
    lying = Instruction(parameter.name, "parameter", array_shape(shape.dtype, dims), (), dict(parameter.attrs))
    back = tuple(order.index(d) for d in range(shape.rank))
    entry.replace(parameter, Instruction("transpose", "transpose", shape, [entry.add(lying)], {"dimensions": back}))
    entry.remove(parameter)


def _give(entry: Computation, result: Shape) -> None:
    root = entry.root
    if result.is_permuted:
        entry.root = _lying(entry, root, result)
    elif result.is_tuple and any(s.is_permuted for s in result.elements):
        leaves = [_element(entry, root, k) for k in range(len(result.elements))]
        leaves = [_lying(entry, x, s) if s.is_permuted else x for x, s in zip(leaves, result.elements, strict=True)]
        entry.root = entry.add(Instruction("tuple", "tuple", tuple_shape([x.shape for x in leaves]), leaves))


def _lying(entry: Computation, value: Instruction, shape: Shape) -> Instruction:
    order = {"dimensions": shape.major_to_minor}
    return entry.add(Instruction("transpose", "transpose", shape.in_memory(), [value], order))


def _element(entry: Computation, root: Instruction, number: int) -> Instruction:
    if root.opcode == "tuple":
        return root.operands[number]
    shape = root.shape.elements[number]
    return entry.add(Instruction("get-tuple-element", "get-tuple-element", shape, [root], {"index": number}))
