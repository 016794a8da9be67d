"""What a loop nest is apart from how many rows it goes over: code of rows that are all done alike serves any number.

That number is read where the rows are shared among threads, and so is no part of the code. What decides by it, or by
how large the arrays are, becomes a condition: see `llvm.symbolic_dimension`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.nest import (
    LoopBody,
    LoopNest,
    affine_expressions,
    arranged,
    by_extent,
    merged,
    nodes_of,
    ordered,
    reductions_of,
)
from xloom.codegen.loop_ir.nest_copy import NestCopy
from xloom.codegen.loop_ir.nodes import Load, Reduced, indices_of
from xloom.codegen.loop_ir.text import NestText
from xloom.cpu.kernel_modules.form import ShapeGenericProblem
from xloom.cpu.loops.row_reduction import is_column_reduction


@dataclass(frozen=True)
class RowForm:
    """A nest whose rows are the iterations of one loop."""

    problem: ShapeGenericProblem
    """The nest without the number of rows and the sizes of its arrays."""
    rows: list[Var]
    """That loop's variable, as often as it is there."""
    arrays: list[BufferValue]
    nest: LoopNest
    names: dict[str, str]
    """Of its loops, and those that the same loops have in every nest of the form."""
    reads_sizes = False

    @contextmanager
    def opened(self, symbols: list[Any]) -> Iterator[tuple[LoopNest, Mapping[BufferValue, Any]]]:
        """Meanwhile the nest has so many rows, and its arrays the sizes that this gives."""
        count, *sizes = symbols
        before = [var.size for var in self.rows]
        for var in self.rows:
            var.size = count
        try:
            yield self.nest, dict(zip(self.arrays, sizes, strict=True))
        finally:
            for var, size in zip(self.rows, before, strict=True):
                var.size = size


def row_form(nest: LoopNest, numbers: Mapping[BufferValue, int]) -> RowForm | None:
    """The form of a nest; None where rows are not all alike."""
    nest = _joined(nest)
    row = _row(nest)
    if row is None:
        return None
    found = [*nest.outer, *(v for stage in nest.stages for v in stage.vars)]
    for stage in nest.stages:
        for node in nodes_of(stage):
            if not isinstance(node, Load) and any(index.factor(row) for index in indices_of(node)):
                return None
            if isinstance(node, Reduced):
                found += node.reduction.vars
        found += [v for index in affine_expressions(stage) for v, _ in index.terms]
    rows = list({id(v): v for v in found if v == row}.values())
    if any(v.node is not None for v in rows):
        return None
    text = NestText(nest, numbers, row)
    values = (row.size, *text.sizes.values())
    problem = ShapeGenericProblem("\n".join(["rows", *text.lines]), values, lambda sizes: sizes.symbols)
    names = {v.name: text.variables[v.number] for v in found if v.node is None}
    return RowForm(problem, rows, list(text.sizes), nest, names)


def _joined(nest: LoopNest) -> LoopNest:
    """The nest with loops joined that are as one: it is the same for arrays of any number of dimensions."""
    if any(v.node is not None for stage in nest.stages for index in affine_expressions(stage) for v, _ in index.terms):
        return nest
    around = nest.outer or (nest.stages[0].vars if reductions_of(nest.stages[0]) else [])
    loops, gone = merged(nest.stages, around)
    for stage in nest.stages:
        loops += [v for v in stage.vars if v not in around]
        for reduction in {id(n.reduction): n.reduction for n in nodes_of(stage) if isinstance(n, Reduced)}.values():
            joined, more = merged([stage], list(reduction.vars))
            loops, gone = loops + joined, gone | more
    return NestCopy({v.number: v for v in loops}).of(nest) if gone else nest


def _row(nest: LoopNest) -> Var | None:
    """The outermost loop, where what it goes over are rows; of a single reduction, if these lie in memory as such."""
    if nest.outer:
        return nest.outer[0]
    (stage,) = nest.stages
    reductions = reductions_of(stage)
    if not reductions or not stage.vars:
        return None
    loops, gone = arranged(stage, stage.vars)
    joined = LoopBody(loops, stage.stores)  # as the kernel has them
    if is_column_reduction(joined, reductions)[0]:
        return None
    row = stage.vars[0]
    if row.size == 1:
        return row
    following = by_extent(stage, stage.vars)
    became = next(v for v in following[following.index(row) :] if v not in gone)
    around = ordered(LoopBody([*loops, *reductions[0].vars], stage.stores), loops)
    return row if became in around[:1] else None  # its size would be needed inside of another one
