"""Reductions and scans: any computation, applied in order, whole slabs at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xloom.interpreter.registry import Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.computation import Computation
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator

_EXACT = {"maximum", "minimum", "and", "or", "xor"}


def as_tuple(value: Value) -> tuple[Value, ...]:
    """The value, as a tuple of one if it is none."""
    return value if isinstance(value, tuple) else (value,)


def plain_operator(computation: Computation) -> str | None:
    """The opcode of a computation that is one binary operator of its two scalar parameters."""
    root = computation.root
    parameters = computation.parameters
    if len(computation) == 3 and len(parameters) == 2 and set(root._operands) == set(parameters) and root.op.commutes:
        return root.opcode
    return None


@evaluates("reduce")
def reduce(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Reduces from the initial values, the reduced elements in row-major order."""
    count = len(operands) // 2
    inputs, inits = operands[:count], operands[count:]
    dims = instruction["dimensions"]
    kept = [k for k in range(inputs[0].ndim) if k not in dims]
    order = [*sorted(dims), *kept]
    kept_dims = tuple(inputs[0].shape[k] for k in kept)
    # the reduced elements one after the other, each a slab of the kept dimensions
    count_reduced = math.prod(inputs[0].shape[k] for k in dims)
    slabs = [x.transpose(order).reshape(count_reduced, *kept_dims) for x in inputs]
    body = instruction["to_apply"]
    if count == 1 and evaluator.follows_standard(body.root.opcode):
        fast = _fast(plain_operator(body), slabs[0], inits[0])
        if fast is not None:
            return fast
    reducer = evaluator.elementwise(body)
    state = [np.broadcast_to(i, kept_dims) for i in inits]
    shapes = instruction.shape.elements if instruction.shape.is_tuple else (instruction.shape,)
    for k in range(slabs[0].shape[0]):
        state = [np.asarray(v) for v in as_tuple(reducer(*state, *(s[k] for s in slabs)))]
    out = tuple(
        np.broadcast_to(v, kept_dims).astype(s.dtype.numpy, copy=False) for v, s in zip(state, shapes, strict=True)
    )
    return out if instruction.shape.is_tuple else out[0]


def _fast(opcode: str | None, slab: np.ndarray, init: np.ndarray) -> np.ndarray | None:
    """Sums and extrema by NumPy where they are as exact: integers wrap in any order; floats are summed in f64."""
    if opcode is None or slab.shape[0] == 0:
        return None
    kind = slab.dtype.kind
    if kind in "iu":
        functions = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
        functions |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
        if opcode in functions:
            function = functions[opcode]
            return np.asarray(function(function.reduce(slab, axis=0, dtype=slab.dtype), init)).astype(slab.dtype)
    if kind == "b" and opcode in ("and", "or", "add", "multiply", "maximum", "minimum"):
        both = opcode in ("and", "multiply", "minimum")
        function = np.logical_and if both else np.logical_or
        return np.asarray(function(function.reduce(slab, axis=0), init))
    if slab.dtype == np.float32 and opcode == "add":
        # one rounding at the end: never further from the true sum than any order of additions in f32
        with np.errstate(all="ignore"):
            return (np.add.reduce(slab.astype(np.float64), axis=0) + np.float64(init)).astype(np.float32)
    return None


@evaluates("scan")
def scan(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Step by step along one dimension: to_apply(inputs..., carries...) -> (outputs..., carries...)."""
    carries_count = instruction["num_carries"]
    (dim,) = instruction["dimensions"]
    inputs = operands[: len(operands) - carries_count]
    carries = list(operands[len(operands) - carries_count :])
    body = instruction["to_apply"]
    outputs_shape = instruction.shape.elements[: len(instruction.shape.elements) - carries_count]
    size = inputs[0].shape[dim] if inputs else outputs_shape[0].dims[dim]
    outputs: list[list[np.ndarray]] = [[] for _ in outputs_shape]
    steps = reversed(range(size)) if instruction["is_reverse"] else range(size)
    for k in steps:
        result = as_tuple(evaluator.call(body, [*(np.take(x, k, axis=dim) for x in inputs), *carries]))
        for out, value in zip(outputs, result[: len(outputs)], strict=True):
            out.append(value)
        carries = list(result[len(outputs) :])
    if instruction["is_reverse"]:
        outputs = [list(reversed(out)) for out in outputs]
    stacked = [
        np.stack(out, axis=dim).astype(s.dtype.numpy) if out else np.zeros(s.dims, s.dtype.numpy)
        for out, s in zip(outputs, outputs_shape, strict=True)
    ]
    return (*stacked, *carries)
