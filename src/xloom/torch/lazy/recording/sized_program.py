"""Programs of the device for all sizes up to a bound: of paths that differ in sizes alone.

The first sizes of a path have programs of their own. Once there is a further one, all numbers that differ are affine in
one of them, as a rule; then the sizes share programs, so that tokens that become more compile few of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from xloom.errors import LoweringError, XloomError
from xloom.hlo.module import Module
from xloom.hlo.shape import array_shape
from xloom.hlo.verify.module import verify
from xloom.passes.dynamic.resizable import resizable
from xloom.pjrt.buffer import Buffer
from xloom.torch.lazy.recording import donation, resized_buffers
from xloom.torch.lazy.recording.path_numbers import PathNumbers, given, path_numbers
from xloom.torch.lazy.recording.signature import NeedsConstants
from xloom.torch.lazy.recording.trace import Node, Trace
from xloom.torch.lazy.recording.trace_program import TraceProgram, argument_shapes, build
from xloom.torch.lazy.runtime import device_client
from xloom.torch.metrics import METRICS
from xloom.torch.size_bounds import bound_of, samples_of

EXACT = 2
"""How many sizes of a path have programs of their own, before further ones share them."""
SEEN = 8
"""So many sizes are remembered to find the formula by."""
FAMILIES = 512
"""How many structures of paths are remembered; the least recently used one goes."""
_OTHERWISE = "each size has a program of its own"


class SizedProgram:
    """A compiled path for all sizes up to a bound."""

    def __init__(self, samples: Sequence[tuple[int, Module]], outputs: tuple[int, ...], arguments: Sequence[Buffer]):
        """`samples` are its modules of some sizes, the bound's first and the smallest one's next."""
        (self.bound, largest), (self.least, _), *_ = samples
        made = resizable(samples, position=len(largest.entry.parameters))
        free = donation.unused(arguments, range(len(arguments)))
        if donation.alias(largest.clone(""), [k for k in free if made.parameters[k]]):
            raise LoweringError(
                "memory of another size is updated in place, not copied to a bound and back", hint=_OTHERWISE
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


class _Formula:
    """All numbers of paths, as affine in one of them, and their programs by bound: None where there can be none."""

    def __init__(self, place: int, scale: np.ndarray, offset: np.ndarray):
        self.place, self.scale, self.offset = place, scale, offset
        self.programs: dict[int, SizedProgram | None] = {}

    def at(self, size: int) -> np.ndarray:
        """The numbers of a size."""
        return self.scale * size + self.offset

    def fits(self, numbers: np.ndarray) -> bool:
        """Whether it gives these."""
        size = int(numbers[self.place])
        return size >= 2 and np.array_equal(self.at(size), numbers)

    def samples(self, bound: int, least: int, dims: int) -> list[int]:
        """Sizes that show what depends on one, of which no array is empty that is not always so."""
        scale, offset = self.scale[:dims], self.offset[:dims]
        if (scale < 0).any():
            raise LoweringError("an array becomes smaller where another one becomes larger", hint=_OTHERWISE)
        grows = scale > 0
        least = max(least, *(-(-(1 - offset[grows]) // scale[grows])).tolist())
        between = max(bound - 3, least + 1)
        if not between < bound:
            raise LoweringError("there are too few sizes below the bound", hint=_OTHERWISE)
        return [bound, least, between]


class _Family:
    """Paths of one structure."""

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []
        self.formulas: list[_Formula] = []

    def formula(self, found: PathNumbers) -> _Formula | None:
        """What gives the numbers of a path, and those of two that were there before."""
        for each in self.formulas:
            if each.fits(found.numbers):
                return each
        for pair in combinations(self.seen, EXACT):
            made = _formula(found, pair)
            if made is not None:
                self.formulas.append(made)
                return made
        self.seen = [*self.seen[-SEEN:], found.numbers]
        return None


def _formula(found: PathNumbers, others: Sequence[np.ndarray]) -> _Formula | None:
    first, second = others
    steps = found.numbers - first
    sizes = np.flatnonzero(steps[: found.dims])
    if not sizes.size:
        return None
    place = int(sizes[np.argmin(np.abs(steps[sizes]))])
    scale, rest = np.divmod(steps, steps[place])
    made = _Formula(place, scale, found.numbers - scale * found.numbers[place])
    is_one = not rest.any() and made.fits(found.numbers) and made.fits(second) and made.fits(first)
    return made if is_one and second[place] not in (first[place], found.numbers[place]) else None


_families: OrderedDict[object, _Family] = OrderedDict()


def find(trace: Trace, wanted: tuple[int, ...]) -> OfOneSize | None:
    """The program that a path shares with those of other sizes; None if it is to have its own."""
    if trace.keeps_numbers or not device_client.is_host():
        return None
    path = trace.node.path()
    found = path_numbers(path)
    key = found.structure, wanted
    family = _families.setdefault(key, _Family())
    _families.move_to_end(key)
    if len(_families) > FAMILIES:
        _families.popitem(last=False)
    formula = family.formula(found)
    if formula is None:
        return None
    size = int(found.numbers[formula.place])
    bound = bound_of(size)
    if bound not in formula.programs:
        formula.programs[bound] = _compiled(trace, _Path(path, wanted, formula, found.dims), size)
    program = formula.programs[bound]
    return OfOneSize(wanted, program, size) if program is not None and program.least <= size <= program.bound else None


class _Path(NamedTuple):
    """A path, of which there are modules of other sizes."""

    nodes: Sequence[Node]
    wanted: tuple[int, ...]
    formula: _Formula
    dims: int

    def module(self, size: int) -> Module:
        """That of a size. Raises what an operator does that cannot have it."""
        own = self.formula.at(size).tolist()
        sizes, rest = iter(own[: self.dims]), iter(own[self.dims :])
        shapes = [array_shape(each.dtype, [next(sizes) for _ in each.dims]) for each in argument_shapes(self.nodes)]
        module = build(self.nodes[-1], self.wanted, shapes=shapes, given=given(self.nodes, rest))
        verify(module)
        return module

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
        nominal, smallest, _ = samples_of(bound_of(size))
        bound = path.largest(size, nominal)
        # of memory that was made for `bound`, that part which is all of it is no part
        bound -= size < bound < nominal
        samples = [(s, path.module(s)) for s in path.formula.samples(bound, smallest - nominal + bound, path.dims)]
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
        raise LoweringError("random numbers of another size are others", hint=_OTHERWISE)
