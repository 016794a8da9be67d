"""What a transform's kernel consists of: phases, each a function that depends on no length, and its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.fft.routines import PhaseCode, phase_function
from xloom.cpu.kernels.fft.tables import Tables
from xloom.llvm.types import POINTER

Size = Callable[[int], Any]
"""What stands for a number in code that is for many."""


@dataclass(frozen=True)
class ArrayPlace:
    """An operand, an output, or scratch memory of a kernel."""

    kind: str
    number: int = 0

    def pointer(self, p: PhaseBuilder) -> ir.Value:
        """Its address."""
        return getattr(p, self.kind)(self.number)


OPERAND, OUTPUT = ArrayPlace("operand"), ArrayPlace("output")


@dataclass(frozen=True)
class FftPhase:
    """A phase: `items` of it, of which `grain` are worth a thread, each with so many bytes of `scratch` memory."""

    code: PhaseCode
    source: ArrayPlace
    target: ArrayPlace
    numbers: Sequence[Any]
    items: Any
    grain: Any
    scratch: Any = None

    def of_sizes(self, size: Size) -> FftPhase:
        """The same with what stands for its numbers."""
        scratch = None if self.scratch is None else size(self.scratch)
        return replace(
            self,
            numbers=tuple(map(size, self.numbers)),
            items=size(self.items),
            grain=size(self.grain),
            scratch=scratch,
        )

    def emit(self, kernel: Kernel) -> None:
        """Adds the phase to a kernel."""
        function = phase_function(kernel, self.code)
        scratch = None if self.scratch is None else kernel.add_scratch(self.items * self.scratch)
        with kernel.phase(self.items, self.grain) as p:
            memory = ir.Constant(POINTER, None) if scratch is None else p.scratch(scratch)
            places = [place.pointer(p) for place in (self.source, self.target)]
            p.b.call(function, [*places, p.tables, memory, p.numbers(self.numbers), p.begin, p.end])


@dataclass
class FftPlan:
    """All phases of a kernel, one after another, and the scratch arrays between them."""

    tables: Tables = field(repr=False)
    phases: list[FftPhase] = field(default_factory=list)
    scratch: list[Any] = field(default_factory=list)

    def add_scratch(self, nbytes: int) -> ArrayPlace:
        """An array of so many bytes, for the phases that come."""
        self.scratch.append(nbytes)
        return ArrayPlace("scratch", len(self.scratch) - 1)

    def of_sizes(self, size: Size) -> FftPlan:
        """The same with what stands for its numbers."""
        return FftPlan(self.tables, [p.of_sizes(size) for p in self.phases], list(map(size, self.scratch)))

    def emit(self, kernel: Kernel) -> None:
        """Adds all phases to a kernel."""
        for nbytes in self.scratch:
            kernel.add_scratch(nbytes)
        for phase in self.phases:
            phase.emit(kernel)
