"""What the threads of a block have accumulated, put together: by shuffles in warps, else through shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from llvmlite import ir

from xloom.codegen.emission.accumulators import Accumulator, accumulators
from xloom.codegen.emission.elements import ElementEmitter
from xloom.codegen.loop_ir.nodes import Reduction
from xloom.cuda.kernel import WARP, KernelBuilder
from xloom.cuda.warp_reduction import in_warp
from xloom.llvm import element_access
from xloom.llvm.types import I64, Value

States = Mapping[int, Sequence[Accumulator]]
"""The accumulators of each reduction, by its identity."""


def started(elements: ElementEmitter, reductions: Sequence[Reduction], *, identity: bool = True) -> States:
    """New accumulators: of an identity value, where one is known, or else of the initial values."""
    states = {id(f): accumulators(elements.b, f) for f in reductions}
    for reduction in reductions:
        values = elements.identity_values(reduction) if identity else elements.initial_values(reduction)
        for accumulator, value in zip(states[id(reduction)], values, strict=True):
            accumulator.start(value)
    return states


def combine_states(
    elements: ElementEmitter, reductions: Sequence[Reduction], states: States, values: Mapping[int, Sequence[Value]]
) -> None:
    """What other accumulators have got into `states`."""
    for reduction in reductions:
        elements.combine(reduction, states[id(reduction)], values[id(reduction)])


def values_of(states: States) -> dict[int, list[Value]]:
    """What accumulators have got."""
    return {key: [a.get() for a in found] for key, found in states.items()}


class SharedStates:
    """States of `count` threads in memory: shared, or scratch memory at `pointers`."""

    def __init__(
        self, kernel: KernelBuilder, reductions: Sequence[Reduction], states: States, pointers: Sequence[ir.Value]
    ):
        self._kernel, self._reductions = kernel, reductions
        self._kept = [(id(f), k, a.representation.kept) for f in reductions for k, a in enumerate(states[id(f)])]
        self._pointers = pointers

    @classmethod
    def in_shared_memory(
        cls, kernel: KernelBuilder, reductions: Sequence[Reduction], states: States, count: int
    ) -> SharedStates:
        """Room for `count` states."""
        sizes = state_sizes(reductions, states)
        return cls(kernel, reductions, states, [kernel.shared(size * count) for size in sizes])

    def write(self, states: States, at: ir.Value) -> None:
        """Stores the states of this thread as number `at`."""
        for (key, k, dtype), pointer in zip(self._kept, self._pointers, strict=True):
            element_access.store(self._kernel.b, pointer, dtype, at, states[key][k].get(), exact=True)

    def read(self, at: ir.Value) -> dict[int, list[Value]]:
        """The states number `at`."""
        found: dict[int, list[Value]] = {id(f): [] for f in self._reductions}
        for (key, _, dtype), pointer in zip(self._kept, self._pointers, strict=True):
            found[key].append(element_access.load(self._kernel.b, pointer, dtype, at))
        return found


def state_sizes(reductions: Sequence[Reduction], states: States) -> list[int]:
    """Bytes of each part of a state."""
    return [a.representation.kept.bytes for f in reductions for a in states[id(f)]]


def combine_lanes(
    kernel: KernelBuilder, elements: ElementEmitter, reductions: Sequence[Reduction], states: States, width: int = WARP
) -> None:
    """The first lane of each group of `width` has what all have got; all threads of the warp come here."""

    def combined(_: Sequence[Value], others: Sequence[Value]) -> Sequence[Value]:
        rest = iter(others)
        combine_states(elements, reductions, states, {key: [*islice(rest, len(a))] for key, a in states.items()})
        return flat()

    def flat() -> list[Value]:
        return [value for values in values_of(states).values() for value in values]

    in_warp(kernel, flat(), combined, width)


class BlockReduction:
    """Puts together the states of all threads of a block: its first thread has them then."""

    def __init__(
        self, kernel: KernelBuilder, elements: ElementEmitter, reductions: Sequence[Reduction], states: States
    ):
        self._kernel, self._elements, self._reductions = kernel, elements, reductions
        self._warps = kernel.threads // WARP
        self._shared = (
            SharedStates.in_shared_memory(kernel, reductions, states, self._warps) if self._warps > 1 else None
        )

    def emit(self, states: States, *, is_repeated: bool) -> None:
        """All threads of the block come here. At the end is a barrier only if it is done again."""
        kernel, elements, reductions, b = self._kernel, self._elements, self._reductions, self._kernel.b
        combine_lanes(kernel, elements, reductions, states)
        if self._shared is None:
            return
        with b.if_then(b.icmp_signed("==", kernel.lane, I64(0))):
            self._shared.write(states, kernel.warp)
        kernel.barrier()
        with b.if_then(b.icmp_signed("==", kernel.thread, I64(0))), elements.scope():
            for warp in range(1, self._warps):
                combine_states(elements, reductions, states, self._shared.read(I64(warp)))
        if is_repeated:
            kernel.barrier()
