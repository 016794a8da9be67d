"""What a reduction is apart from the sizes of its loops: its code reads these and strides in memory when it runs.

So it is where neighbours in memory belong to different results, and where there is but one result: their innermost
loops are over blocks of fixed size. What decides by a size becomes a condition: see `llvm.symbolic_dimension`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.nest import LoopBody, LoopNest, arranged, ordered, reductions_of
from xloom.codegen.loop_ir.nest_copy import NestCopy
from xloom.codegen.loop_ir.nodes import (
    AccumulatorValue,
    Constant,
    Index,
    Load,
    Op,
    Reduced,
    indices_of,
    post_order,
)
from xloom.codegen.loop_ir.text import NestText
from xloom.cpu.kernel_modules.form import LEAST, ShapeGenericProblem
from xloom.cpu.loops.row_reduction import is_column_reduction
from xloom.cpu.loops.short_rows import BLOCK

Size = Callable[[int], Any]
"""What stands for a size."""


@dataclass(frozen=True)
class ReductionForm:
    """A nest that is one reduction, or several over the same loops."""

    problem: ShapeGenericProblem
    """The nest without the sizes of its loops and arrays."""
    names: dict[str, str]
    """Of its loops, and those that the same loops have in every nest of the form."""
    reads_sizes = True
    _nest: LoopNest
    _kept: Var | None
    """A loop whose size is a part of it."""
    _arrays: list[BufferValue]

    @contextmanager
    def opened(self, symbols: list[Any]) -> Iterator[tuple[LoopNest, Mapping[BufferValue, Any]]]:
        """The nest with symbols for its sizes, and those of its arrays."""
        following = iter(symbols)
        nest = _with_sizes(self._nest, self._kept, lambda _: next(following))
        yield nest, dict(zip(self._arrays, following, strict=True))


def reduction_form(nest: LoopNest, numbers: Mapping[BufferValue, int]) -> ReductionForm | None:
    """The form of a nest; None where it is of another kind."""
    if nest.outer or nest.private or len(nest.stages) != 1:
        return None
    (stage,) = nest.stages
    if not reductions_of(stage) or not _is_plain(stage):
        return None
    nest = _joined(nest)
    (stage,) = nest.stages
    reductions = reductions_of(stage)
    if stage.vars and not is_column_reduction(stage, reductions)[0]:
        return None
    *_, best = ordered(LoopBody([*stage.vars, *reductions[0].vars], stage.stores), stage.vars) or [None]
    kept = best if best is not None and best.size <= BLOCK else None  # then registers hold the results meanwhile
    values: list[int] = []

    def blank(size: int) -> str:
        values.append(size)
        return "?"

    text = NestText(_with_sizes(nest, kept, blank), numbers, with_sizes=False)
    problem = ShapeGenericProblem(
        "\n".join(["reduction", *text.lines]), (*values, *text.sizes.values()), lambda sizes: sizes.symbols
    )
    loops = [*stage.vars, *reductions[0].vars]
    return ReductionForm(problem, {v.name: text.variables[v.number] for v in loops}, nest, kept, list(text.sizes))


def _is_plain(stage: LoopBody) -> bool:
    """Whether all elements are computed alike, from numbers that lie at equal distances and where these are."""
    nodes = post_order([s.node for s in stage.stores])
    if not all(isinstance(n, (AccumulatorValue, Constant, Index, Load, Op, Reduced)) for n in nodes):
        return False
    indices = [s.address for s in stage.stores] + [index for n in nodes for index in indices_of(n)]
    return not any(v.node for index in indices for v, _ in index.terms)


def _joined(nest: LoopNest) -> LoopNest:
    """The nest with loops joined that are as one: it is the same for arrays of any number of dimensions."""
    (stage,) = nest.stages
    results, _ = arranged(stage, stage.vars)
    reduced, _ = arranged(stage, reductions_of(stage)[0].vars)
    return NestCopy({v.number: v for v in (*results, *reduced)}).of(nest)


def _with_sizes(nest: LoopNest, kept: Var | None, size: Size) -> LoopNest:
    """The nest with other sizes than it has, but for `kept`, and other distances in memory, which come of them."""

    def changed(number: int) -> Any:
        return size(number) if abs(number) >= LEAST and (kept is None or number != kept.size) else number

    (stage,) = nest.stages
    results = [v if v == kept else replace(v, size=size(v.size)) for v in stage.vars]
    reduced = [replace(v, size=size(v.size)) if v.size >= LEAST else v for v in reductions_of(stage)[0].vars]
    return NestCopy({v.number: v for v in (*results, *reduced)}, changed).of(nest)
