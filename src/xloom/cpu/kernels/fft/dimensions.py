"""Complex transforms of an array along one dimension after the other, each in memory of their own or in place."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernels.fft import plan
from xloom.cpu.kernels.fft.batched_transform import BatchedTransform, BatchLayout, lanes_of
from xloom.cpu.kernels.fft.phases import ArrayPlace, FftPhase, FftPlan
from xloom.cpu.kernels.fft.tables import Tables
from xloom.hlo.dtype import DType
from xloom.llvm.target import Target


def stays(dtype: DType, dims: Sequence[int], axis: int, target: Target) -> bool:
    """True when an axis can be transformed from its memory to the same."""
    outer, inner = math.prod(dims[:axis]), math.prod(dims[axis + 1 :])
    return inner > 1 or (plan.split(dims[axis], outer) == 1 and outer % lanes_of(dtype, outer, target).count == 0)


class Dimensions:
    """Adds the phases of transforms of one type and sign to a kernel's plan."""

    def __init__(self, target: Target, dtype: DType, sign: int):
        self.target, self.dtype, self.sign = target, dtype, sign
        self.plan = FftPlan(Tables(dtype))

    @property
    def tables(self) -> Tables:
        """What the phases read beside their points."""
        return self.plan.tables

    def scratch(self, dims: Sequence[int]) -> ArrayPlace:
        """Scratch memory for a complex array of these dimensions."""
        return self.plan.add_scratch(math.prod(dims) * self.dtype.bytes)

    def add(self, phase: FftPhase) -> None:
        """Another phase, after those that there are."""
        self.plan.phases.append(phase)

    def over(
        self, dims: Sequence[int], axes: Sequence[int], source: ArrayPlace, target: ArrayPlace, scale: float
    ) -> None:
        """Transforms `axes`, the last one first, and multiplies by `scale`.

        The source may be the target if all axes stay.
        """
        in_place = all(stays(self.dtype, dims, axis, self.target) for axis in axes[:-1])
        for axis in reversed(axes):
            is_last = axis == axes[0]
            between = target if is_last or in_place else self.scratch(dims)
            self._axis(dims, axis, source, between, scale if is_last else 1.0)
            source = between

    def _axis(self, dims: Sequence[int], axis: int, source: ArrayPlace, target: ArrayPlace, scale: float) -> None:
        outer, n, inner = math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :])
        if inner > 1:
            layouts = BatchLayout(source, n * inner, inner, 1), BatchLayout(target, n * inner, inner, 1)
            self._lines(n, outer, inner, layouts, scale)
        elif plan.split(n, outer) > 1:
            self.long_lines(outer, n, source, target, scale)
        else:
            self._lines(n, 1, outer, (BatchLayout(source, 0, 1, n), BatchLayout(target, 0, 1, n)), scale)

    def long_lines(
        self,
        lines: int,
        n: int,
        source: ArrayPlace,
        target: ArrayPlace,
        scale: float,
        steps: tuple[int, int] | None = None,
        *,
        united: bool = False,
    ) -> None:
        """Transforms lines that are `steps` apart, each as a matrix: columns, which become rows, then those' columns.

        The source of `united` lines is a spectrum of n + 1 points each.
        """
        width, (source_step, target_step) = plan.split(n, lines), steps or (n, n)
        height = n // width
        chosen(f"lines of {n} points as matrices of {height} x {width}", plan.why_split(n))
        columns = BatchLayout(source, source_step, width, 1), BatchLayout(target, target_step, 1, height)
        self._lines(height, lines, width, columns, scale, united=n if united else 0)
        again = BatchLayout(target, target_step, height, 1)
        self._lines(width, lines, height, (again, again), 1.0, twiddle_period=n)

    def halves(self, lines: int, n: int, source: ArrayPlace, target: ArrayPlace, scale: float) -> bool:
        """Transforms n complex points that are 2 n real ones, forwards to a spectrum of n + 1, or such a one backwards.

        False where that has to be done in several steps.
        """
        if plan.split(n, lines) > 1:
            return False
        source_points, target_points = (n, n + 1) if self.sign < 0 else (n + 1, n)
        layouts = BatchLayout(source, 0, 1, source_points), BatchLayout(target, 0, 1, target_points)
        self._add(BatchedTransform(self.dtype, self.sign, n, 1, lines, *layouts, scale, halves=True))
        return True

    def _lines(
        self,
        n: int,
        groups: int,
        count: int,
        layouts: tuple[BatchLayout, BatchLayout],
        scale: float,
        *,
        twiddle_period: int = 0,
        united: int = 0,
    ) -> None:
        self._add(BatchedTransform(self.dtype, self.sign, n, groups, count, *layouts, scale, twiddle_period, united))

    def _add(self, transform: BatchedTransform) -> None:
        self.add(transform.phase(self.tables, self.target))
