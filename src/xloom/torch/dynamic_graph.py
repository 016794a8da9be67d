"""A graph with symbolic sizes: which programs it has, and which of them runs for given arguments."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule

from xloom.errors import XloomError
from xloom.torch.affine_sizes import EXACT, LEAST, Family, Formula, along
from xloom.torch.compiled_graph import CompiledGraph
from xloom.torch.fx_graph import Translated, translate
from xloom.torch.metrics import METRICS
from xloom.torch.resized_graph import ResizedGraph
from xloom.torch.size_symbols import SizeSymbols

PROGRAMS = 32
"""How many programs a graph has at a time, of one size and of several each; the least recently used one goes."""


class DynamicGraph:
    """Called with the graph's arguments, gives the list of its results."""

    def __init__(
        self,
        graph: GraphModule,
        prepare: Callable[[Translated], Translated],
        *,
        strided: int | None,
        views: bool,
        device: torch.device | None = None,
    ):
        """`prepare` is what is done to a translated graph before it is compiled; `device` is the GPU of its tensors,
        which has a program for each of their shapes."""
        self._graph = graph
        self._prepare = prepare
        self._strided, self._views, self._device = strided, views, device
        self._symbols = SizeSymbols(graph)
        self._programs: OrderedDict[tuple[Any, ...], CompiledGraph] = OrderedDict()
        self._recent: OrderedDict[tuple[Formula[ResizedGraph], int], None] = OrderedDict()
        """The programs of several sizes, by formula and bound."""
        self._family: Family[ResizedGraph] = Family()
        self._refused: set[bytes] = set()
        """Which symbols may not change without the others, as far as it is known."""
        self._shares = self._symbols.complete and device is None

    def __call__(self, *arguments: Any) -> list[Any]:
        """Runs the program of these shapes, or the one that they share with others."""
        key = tuple(
            [
                tuple(a.shape) if isinstance(a, torch.Tensor) else a
                for k, a in enumerate(arguments)
                if k not in self._symbols.passed_on
            ]
        )
        program = self._programs.get(key)
        if program is not None:
            self._programs.move_to_end(key)
            return program(arguments)
        shared = self._shared(arguments) if self._shares else None
        if shared is not None:
            return shared(arguments)
        translated = self._prepare(translate(self._graph, arguments, strided=self._strided))
        program = self._programs[key] = CompiledGraph(translated, views=self._views, device=self._device)
        if len(self._programs) > PROGRAMS:
            self._programs.popitem(last=False)
        return program(arguments)

    def _shared(self, arguments: Sequence[Any]) -> ResizedGraph | None:
        """The program that these sizes share with others; None if they are to have their own."""
        numbers = self._symbols.of(arguments)
        formula = self._family.formula(numbers, numbers.size)
        if formula is None:
            return self._of_one_symbol(numbers, arguments)
        return self._of(formula, numbers, arguments)

    def _of_one_symbol(self, numbers: np.ndarray, arguments: Sequence[Any]) -> ResizedGraph | None:
        """A program for the sizes that one symbol has had, the one with the most of them. Those that have always been
        equal to it change with it, or else it alone does."""
        seen = np.stack([*self._family.seen, numbers])
        ways = {k: [w for w in changes_with(seen, k) if w.tobytes() not in self._refused] for k in range(numbers.size)}
        places = [k for k, its in ways.items() if its and numbers[k] >= LEAST]
        if len(self._family.seen) <= EXACT or not places:
            return None
        place = max(places, key=lambda k: len(np.unique(seen[:, k])))
        for way in ways[place]:
            formula = along(place, way, numbers)
            found = self._of(formula, numbers, arguments)
            if found is not None:
                self._family.add(formula, numbers)
                return found
            self._refused.add(way.tobytes())
        return None

    def _of(self, formula: Formula[ResizedGraph], numbers: np.ndarray, arguments: Sequence[Any]) -> ResizedGraph | None:
        size = formula.size(numbers)
        bound = formula.bound(size)
        if bound not in formula.programs:
            try:
                formula.programs[bound] = ResizedGraph(
                    self._graph,
                    self._symbols,
                    formula,
                    arguments,
                    self._prepare,
                    strided=self._strided,
                    views=self._views,
                )
            except (XloomError, RuntimeError, ValueError, ZeroDivisionError) as error:
                formula.programs[bound] = None
                METRICS.own_sizes[str(error).splitlines()[0]] += 1
        self._recent[formula, bound] = None
        self._recent.move_to_end((formula, bound))
        program = formula.programs[bound]
        if len(self._recent) > PROGRAMS:
            (old, its), _ = self._recent.popitem(last=False)
            del old.programs[its]
        return program if program is not None and program.least <= size <= program.bound else None


def changes_with(seen: np.ndarray, place: int) -> list[np.ndarray]:
    """How numbers may change with one of them: those that were equal to it each time, or none."""
    equal, alone = (seen == seen[:, [place]]).all(0), np.arange(seen.shape[1]) == place
    return [way.astype(np.int64) for way in ((equal, alone) if equal.sum() > 1 else (alone,))]
