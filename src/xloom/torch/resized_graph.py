"""A program for all sizes of a graph up to a bound: tensors are put into larger ones, and results cut out of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule

from xloom.errors import LoweringError
from xloom.passes.dynamic.resizable import Extent, Resizable, resizable
from xloom.passes.dynamic.sizes import Affine
from xloom.torch.affine_sizes import Formula
from xloom.torch.compiled_graph import CompiledGraph
from xloom.torch.fx_graph import Given, Translated, as_list, translate
from xloom.torch.graph_memory import OF_MEMORY, order_in_memory, owner
from xloom.torch.shared_results import ArgumentView, replay
from xloom.torch.size_symbols import SizeSymbols, numbers_of
from xloom.torch.traced_numbers import Symbol, evaluated


class ResizedGraph:
    """Called with the graph's arguments, gives the list of its results. One size may have any value up to a bound."""

    def __init__(
        self,
        graph: GraphModule,
        symbols: SizeSymbols,
        formula: Formula[Any],
        arguments: Sequence[Any],
        prepare: Callable[[Translated], Translated],
        *,
        strided: int | None,
        views: bool,
    ):
        """`arguments` are of one size; what symbols have for others is told by `formula`.

        Raises LoweringError for graphs that need a program for each size, and whatever an operator raises that cannot
        have one of the sizes that are tried.
        """
        if any(node.target in OF_MEMORY for node in graph.graph.nodes):
            raise LoweringError(
                "the graph reads memory beyond a tensor's elements",
                hint="torch._dynamo.mark_static, or dynamic=False, compiles each size by itself",
            )
        self._symbols, self._formula = symbols, formula
        least, most = formula.limits(*symbols.limits())
        sizes = formula.samples(formula.size(symbols.of(arguments)), len(symbols.symbols), least, most)
        self.bound, self.least, *_ = sizes
        uneven = symbols.uneven(range(self.least, self.bound + 1), formula.at)
        if uneven is not None:
            raise LoweringError(
                f"{uneven} is not affine in the size",
                hint="torch._dynamo.mark_static, or dynamic=False, compiles each size by itself",
            )
        samples: list[tuple[int, Translated]] = []
        for size in sizes:
            given = symbols.arguments(arguments, symbols.named(formula.at(size)))
            samples.append((size, translate(graph, given, strided=strided, dense=True)))
        largest = samples[0][1]
        if largest.bases or largest.stretches:
            raise LoweringError(
                "results of the graph share memory",
                hint="torch._dynamo.mark_static, or dynamic=False, compiles each size by itself",
            )
        count = len(largest.arguments)
        made = resizable([(size, each.module) for size, each in samples], position=count)
        (results,) = [node.args[0] for node in graph.graph.nodes if node.op == "output"]
        self._translated = largest
        nodes = as_list(results)
        self._results: list[Any] = [n.meta.get("val") if isinstance(n, torch.fx.Node) else n for n in nodes]
        self._with_gaps = [
            k
            for k, leaf in enumerate(largest.results[:strided])
            if isinstance(leaf, int) and order_in_memory(nodes[k]) is None
        ]
        self._extents = _extents(largest, made)
        dims = zip(largest.arguments, made.parameters[:count], strict=True)
        self._padded = {k: sizes for k, sizes in dims if sizes}
        kept = [Given(None) if isinstance(each, ArgumentView) else each for each in largest.results]
        sized = replace(largest, module=made.module, arguments=[*largest.arguments, len(arguments)], results=kept)
        self._program = CompiledGraph(prepare(sized), views=views)

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        """Runs it, for arguments whose symbols have the values that the formula gives them."""
        numbers = self._symbols.of(arguments)
        size, values = self._formula.size(numbers), self._symbols.named(numbers)
        taken = [*arguments, torch.tensor(size, dtype=torch.int32, device="cpu")]
        if size != self.bound:
            for k, dims in self._padded.items():
                taken[k] = _at_bounds(arguments[k], dims, self.bound)
        results = self._program(taken)
        for k in self._translated.written:
            assert isinstance(k, int)  # parts are written by strides, which is refused
            if taken[k] is not arguments[k]:
                arguments[k].copy_(_part(taken[k], self._padded[k], arguments[k]))
        for number, result in enumerate(self._translated.results):
            if isinstance(result, Given):
                results[number] = self._given(result, number, arguments, values)
            elif isinstance(result, ArgumentView):
                view = replay(result.node, owner(result.node), partial(numbers_of, values=values))
                results[number] = view(arguments[result.argument])
            elif size != self.bound and number in self._extents:
                results[number] = _cut(results[number], self._extents[number], size)
        for number in self._with_gaps:
            strides = [evaluated(stride, values) for stride in self._results[number].stride()]
            dense = results[number]
            results[number] = torch.empty_strided(dense.shape, strides, dtype=dense.dtype, device=dense.device).copy_(
                dense
            )
        return results

    def _given(self, result: Given, number: int, arguments: Sequence[Any], values: Mapping[Symbol, int]) -> Any:
        if result.argument is not None:
            return arguments[result.argument]
        traced = self._results[number]
        return evaluated(traced, values) if isinstance(traced, torch.SymInt) else result.value


def _extents(translated: Translated, made: Resizable) -> dict[int, dict[int, Extent]]:
    """What is there of each result of the graph that is one of the program, by its own dimensions."""
    found = {}
    for number, leaf in enumerate(translated.results):
        if isinstance(leaf, int) and made.results[leaf]:
            order = translated.orders.get(number)
            own = made.results[leaf]
            found[number] = own if order is None else {order[d]: extent for d, extent in own.items()}
    return found


def _at_bounds(tensor: torch.Tensor, dims: Mapping[int, Affine], bound: int) -> torch.Tensor:
    out = torch.zeros([dims[d].at(bound) if d in dims else n for d, n in enumerate(tensor.shape)], dtype=tensor.dtype)
    _part(out, dims, tensor).copy_(tensor.detach())
    return out


def _part(padded: torch.Tensor, dims: Iterable[int], tensor: torch.Tensor) -> torch.Tensor:
    """Where a tensor is in one that is padded along `dims`."""
    for d in dims:
        padded = padded.narrow(d, 0, tensor.shape[d])
    return padded


def _cut(result: torch.Tensor, extents: Mapping[int, Extent], size: int) -> torch.Tensor:
    for d, extent in extents.items():
        if extent.period is not None:
            result = result.unflatten(d, (-1, extent.period)).narrow(d + 1, 0, extent.size.at(size)).flatten(d, d + 1)
        else:
            result = result.narrow(d, 0, extent.size.at(size))
    return result.clone()  # keeps the order of dimensions in memory
