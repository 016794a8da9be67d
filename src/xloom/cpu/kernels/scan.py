"""Scan, of computations that are elementwise on its slices: step by step, adjacent columns side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

from llvmlite import ir

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernel_modules.kernel import Kernel, kernel
from xloom.errors import LoweringError
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.llvm.element_access import load, store
from xloom.llvm.loop import loop
from xloom.llvm.noalias import distinct
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.routine import least
from xloom.llvm.scalar import elementwise  # noqa: F401 - registers the scalar rules
from xloom.llvm.scalar.rules import RULES
from xloom.llvm.scalar.scalar_computation import evaluated
from xloom.llvm.strided_loops import plus, times
from xloom.llvm.types import I64, Value, constant

_COLUMNS = 128
"""Adjacent elements of a slice that are an item."""
_TASK = 10_000
"""Elements computed in about 20 µs."""


@kernel("scan")
def scan(kernel: Kernel, instruction: Instruction) -> None:
    """One phase; its items are the rows before the scanned dimension, and pieces of the columns after it."""
    kernel.pipeline = PassPipeline.VECTORS
    carries = instruction["num_carries"]
    inputs, outputs = len(kernel.operands) - carries, len(kernel.outputs) - carries
    (dimension,) = instruction["dimensions"]
    scanned = [*kernel.operands[:inputs], *kernel.outputs[:outputs]]
    size = scanned[0].dims[dimension]
    dims = (*scanned[0].dims[:dimension], *scanned[0].dims[dimension + 1 :])
    rows, columns = math.prod(dims[:dimension]), math.prod(dims[dimension:])
    if not rows * columns:
        return
    blocks = -(-columns // _COLUMNS)
    chosen(
        f"step by step, {min(columns, _COLUMNS)} adjacent columns side by side",
        f"{rows} rows of {columns} columns are independent of each other; a step needs the one before",
    )
    dtypes = [s.dtype for s in (*kernel.operands, *kernel.outputs)]
    with kernel.phase(rows * blocks, max(1, _TASK // max(1, size * min(columns, _COLUMNS)))) as phase:
        pointers = [phase.operand(k) for k in range(len(kernel.operands))]
        pointers += [phase.output(k) for k in range(len(kernel.outputs))]
        with (
            distinct(phase.b, pointers, [phase.begin, phase.end]) as (b, pointers, bounds),
            loop(b, bounds[0], bounds[1], name="item") as item,
        ):
            arrays = list(zip(pointers, dtypes, strict=True))
            operands, results = arrays[: len(kernel.operands)], arrays[len(kernel.operands) :]
            state = results[outputs:]
            row, begin = b.udiv(item, I64(blocks)), times(b, b.urem(item, I64(blocks)), _COLUMNS)
            end = least(b, plus(b, begin, _COLUMNS), I64(columns))
            first = times(b, row, columns)
            with loop(b, begin, end, name="column") as column:
                index = plus(b, first, column)
                for (source, dtype), (target, _) in zip(operands[inputs:], state, strict=True):
                    store(b, target, dtype, index, load(b, source, dtype, index))
            with loop(b, 0, size, name="step") as n:
                step = b.sub(I64(size - 1), n) if instruction["is_reverse"] else n
                here = times(b, plus(b, times(b, row, size), step), columns)
                with loop(b, begin, end, name="column") as column:
                    index, carried = plus(b, here, column), plus(b, first, column)
                    values = [load(b, p, t, index) for p, t in operands[:inputs]]
                    values += [load(b, p, t, carried) for p, t in state]
                    new = _element(b, instruction["to_apply"], dims, values)
                    for k, ((pointer, dtype), value) in enumerate(zip(results, new, strict=True)):
                        store(b, pointer, dtype, index if k < outputs else carried, value)


def _element(b: ir.IRBuilder, computation: Computation, dims: Sequence[int], arguments: Sequence[Value]) -> list[Value]:
    """One element of the results, of one element of each slice."""
    values: dict[Instruction, Value] = {}
    root = computation.root
    for i in computation.post_order():
        operands = i._operands
        if i is root and i.opcode == "tuple":
            return [values[o] for o in operands]
        same = all(o.shape.dims in ((), i.shape.dims) for o in operands) and i.shape.dims in ((), tuple(dims))
        if i.opcode == "parameter" and i.shape.dims == tuple(dims):
            values[i] = arguments[i["parameter_number"]]
        elif i.opcode == "constant" and i.shape.is_scalar:
            values[i] = constant(i.literal.item(), i.shape.dtype)
        elif i.opcode in ("broadcast", "reshape") and same:
            values[i] = values[operands[0]]
        elif i.opcode in RULES and same:
            values[i] = evaluated(b, i, *(values[o] for o in operands))
        else:
            raise LoweringError(f"{i.opcode} inside the computation of a scan", where=i.name)
    return [values[root]]
