"""Programs of the device for all sizes up to a bound: of paths that differ in sizes alone.

The first sizes of a path have programs of their own. Once there is a further one, all numbers that differ are affine in
one of them, as a rule; then the sizes share programs, so that tokens that become more compile few of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xloom.errors import LoweringError, XloomError
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.hlo.verify.module import verify
from xloom.passes.dynamic.resizable import resizable
from xloom.pjrt.buffer import Buffer
from xloom.torch.affine_sizes import OTHERWISE, Family, Formula
from xloom.torch.lazy.recording import donation, resized_buffers
from xloom.torch.lazy.recording.path_numbers import given, path_numbers
from xloom.torch.lazy.recording.signature import NeedsConstants
from xloom.torch.lazy.recording.trace import Node, Trace
from xloom.torch.lazy.recording.trace_program import TraceProgram, argument_shapes, build
from xloom.torch.lazy.runtime import device_client
from xloom.torch.metrics import METRICS
from xloom.torch.size_bounds import FEW, SMALLEST_OF_FEW, bound_of

FAMILIES = 512
"""How many structures of paths are remembered; the least recently used one goes."""


class SizedProgram:
    """A compiled path for all sizes up to a bound."""

    def __init__(self, samples: Sequence[tuple[int, Module]], outputs: tuple[int, ...], arguments: Sequence[Buffer]):
        """`samples` are its modules of some sizes, the bound's first and the smallest one's next."""
        (self.bound, largest), (self.least, _), *_ = samples
        made = resizable(samples, position=len(largest.entry.parameters))
        free = donation.unused(arguments, range(len(arguments)))
        if donation.alias(largest.clone(""), [k for k in free if made.parameters[k]]):
            raise LoweringError(
                "memory of another size is updated in place, not copied to a bound and back", hint=OTHERWISE
            )
        self.program = TraceProgram(made.module, outputs, free)
        self._padded = [(k, dims) for k, dims in enumerate(made.parameters[: len(arguments)]) if dims]
        self._extents = [(k, extents) for k, extents in enumerate(made.results) if extents]

    def run(self, size: int, arguments: Sequence[Buffer], scalars: np.ndarray) -> list[Buffer]:
        """Starts it for a size; the results, which need not be there yet."""
        taken = list(arguments)
        if size != self.bound:
            for k, dims in self._padded:
                taken[k] = resized_buffers.at_bounds(taken[k], dims, self.bound)
        results = self.program.run(taken, scalars, size)
        if size != self.bound:
            for k, extents in self._extents:
                results[k] = resized_buffers.cut(results[k], extents, size)
        return results


class OfOneSize(NamedTuple):
    """Such a program as that of one of its sizes."""

    outputs: tuple[int, ...]
    sized: SizedProgram
    size: int

    def run(self, arguments: Sequence[Buffer], scalars: np.ndarray) -> list[Buffer]:
        """Starts it; the results, which need not be there yet."""
        return self.sized.run(self.size, arguments, scalars)

    def failed(self, error: BaseException) -> list[Buffer]:
        """What a run gives that has failed."""
        return self.sized.program.failed(error)


_families: OrderedDict[object, Family[SizedProgram]] = OrderedDict()


def find(trace: Trace, wanted: tuple[int, ...]) -> OfOneSize | None:
    """The program that a path shares with those of other sizes; None if it is to have its own."""
    if trace.keeps_numbers or not device_client.is_host():
        return None
    path = trace.node.path()
    found = path_numbers(path)
    key = found.structure, wanted
    family = _families.setdefault(key, Family())
    _families.move_to_end(key)
    if len(_families) > FAMILIES:
        _families.popitem(last=False)
    formula = family.formula(found.numbers, found.dims)
    if formula is None:
        return None
    size = formula.size(found.numbers)
    of_sizes = _Path(path, wanted, formula, found.dims)
    if not formula.programs and of_sizes.is_cheap(bound_of(size, SMALLEST_OF_FEW)):
        formula.smallest = SMALLEST_OF_FEW
    bound = formula.bound(size)
    if bound not in formula.programs:
        formula.programs[bound] = _compiled(trace, of_sizes, size)
    program = formula.programs[bound]
    return OfOneSize(wanted, program, size) if program is not None and program.least <= size <= program.bound else None


class _Path(NamedTuple):
    """A path, of which there are modules of other sizes."""

    nodes: Sequence[Node]
    wanted: tuple[int, ...]
    formula: Formula[SizedProgram]
    dims: int

    def module(self, size: int) -> Module:
        """That of a size. Raises what an operator does that cannot have it."""
        own = self.formula.at(size).tolist()
        sizes, rest = iter(own[: self.dims]), iter(own[self.dims :])
        shapes = [array_shape(each.dtype, [next(sizes) for _ in each.dims]) for each in argument_shapes(self.nodes)]
        module = build(self.nodes[-1], self.wanted, shapes=shapes, given=given(self.nodes, rest))
        verify(module)
        return module

    def is_cheap(self, bound: int) -> bool:
        """Whether little is computed for sizes up to a bound, where they have one."""
        try:
            module = self.module(bound)
        except _ERRORS:
            return False
        entry = module.entry.instructions
        repeats = any(i.opcode in ("while", "custom-call") for i in entry)
        return not repeats and sum(i.shape.size for i in entry if i.shape.is_array) <= FEW

    def largest(self, size: int, bound: int) -> int:
        """The largest size up to a bound that there is, from one that there is: memory may have been made for it."""
        least, most, middle = size, bound, bound
        while least < most:
            try:
                self.module(middle)
                least = middle
            except _ERRORS:
                most = middle - 1
            middle = (least + most + 1) // 2
        return least


_ERRORS = (XloomError, NeedsConstants, RuntimeError, ValueError, IndexError, TypeError)
"""What operators raise that cannot have a size."""


def _compiled(trace: Trace, path: _Path, size: int) -> SizedProgram | None:
    try:
        least, most = path.formula.same_signs(path.formula.at(size))
        most = path.largest(size, min(most, path.formula.bound(size)))
        sizes = path.formula.samples(size, path.dims, least, most)
        samples = [(s, path.module(s)) for s in sizes]
        _refuse_drawn([module for _, module in samples])
        return SizedProgram(samples, path.wanted, trace.arguments)
    except _ERRORS as error:
        METRICS.own_sizes[str(error).splitlines()[0]] += 1
        trace.of_own_sizes.update((node.signature.name, node.source) for node in path.nodes if node.signature)
        return None


def _refuse_drawn(modules: Sequence[Module]) -> None:
    """Raises LoweringError where a larger size draws more random numbers: which they are depends on how many."""
    drawn = [[i.shape for i in module.instructions if i.opcode == "rng-bit-generator"] for module in modules]
    if any(shapes != drawn[0] for shapes in drawn[1:]):
        raise LoweringError("random numbers of another size are others", hint=OTHERWISE)
