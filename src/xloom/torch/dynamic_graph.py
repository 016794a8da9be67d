"""A graph with symbolic sizes: which programs it has, and which of them runs for given arguments."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from xloom.errors import XloomError
from xloom.torch.compiled_graph import CompiledGraph
from xloom.torch.fx_graph import Translated, translate
from xloom.torch.metrics import METRICS
from xloom.torch.resized_graph import ResizedGraph
from xloom.torch.size_bounds import bound_of
from xloom.torch.size_symbols import SizeSymbols, Symbol

PROGRAMS = 32
"""How many programs a graph has at a time; the least recently used one goes."""
EXACT = 2
"""How many sizes have programs of their own, before the further ones share them, as far as the graph allows."""


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
        self._programs: OrderedDict[tuple[Any, ...], Callable[[Sequence[Any]], list[Any]]] = OrderedDict()
        self._seen: dict[Symbol, set[int]] = defaultdict(set)
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
        program = self._found(key)
        if program is None and self._shares and len(self._programs) >= EXACT:
            program = self._shared(arguments)
        if program is None:
            translated = self._prepare(translate(self._graph, arguments, strided=self._strided))
            program = self._kept(key, CompiledGraph(translated, views=self._views, device=self._device))
        if len(self._programs) <= EXACT:
            self._see(arguments)
        return program(arguments)

    def _see(self, arguments: Sequence[Any]) -> dict[Symbol, int]:
        values = self._symbols.of(arguments)
        for symbol, value in values.items():
            self._seen[symbol].add(value)
        return values

    def _shared(self, arguments: Sequence[Any]) -> ResizedGraph | None:
        """A program for the sizes that one symbol has had, the one with the most of them."""
        values = self._see(arguments)
        symbol = max(values, key=lambda s: len(self._seen[s]))
        if values[symbol] < 2:
            return None
        others = tuple([value for s, value in values.items() if s is not symbol])
        key = symbol, others, bound_of(values[symbol])
        program = self._found(key)
        if program is None:
            try:
                program = ResizedGraph(
                    self._graph,
                    self._symbols,
                    symbol,
                    arguments,
                    self._prepare,
                    strided=self._strided,
                    views=self._views,
                )
            except (XloomError, RuntimeError, ValueError) as error:
                self._shares = False
                METRICS.own_sizes[str(error).splitlines()[0]] += 1
                return None
            self._kept(key, program)
        return program

    def _found(self, key: tuple[Any, ...]) -> Any:
        program = self._programs.get(key)
        if program is not None:
            self._programs.move_to_end(key)
        return program

    def _kept(self, key: tuple[Any, ...], program: Any) -> Any:
        self._programs[key] = program
        if len(self._programs) > PROGRAMS:
            self._programs.popitem(last=False)
        return program
