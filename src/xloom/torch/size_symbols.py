"""The symbolic sizes of a graph: their values for given arguments, and arguments for given values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_map

from xloom.torch.affine_sizes import ENDLESS, LEAST
from xloom.torch.fx_graph import as_list
from xloom.torch.graph_memory import STRIDED, owner
from xloom.torch.traced_numbers import Symbol, evaluated


class SizeSymbols:
    """Those of the placeholders of a graph that Dynamo has traced with dynamic shapes."""

    def __init__(self, graph: GraphModule):
        placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
        self._values = [n.meta.get("val") for n in placeholders]
        self._sizes: list[torch.SymInt] = []
        self.symbols: list[Symbol] = []
        """Those whose values are known once there are arguments."""
        self._found_in: list[tuple[Symbol, int, int | None]] = []
        depended = _depended(graph)
        self.passed_on = {
            k
            for k, (node, value) in enumerate(zip(placeholders, self._values, strict=True))
            if isinstance(value, torch.SymInt) and _is_result(node)
            if is_ragged(value) or not value.node.expr.free_symbols & depended
        }
        """The numbers of arguments that are sizes, and of which nothing depends: ragged ones, and strides of others."""
        unknown = set()
        for number, value in enumerate(self._values):
            if number in self.passed_on:
                continue
            sizes: Sequence[Any] = value.shape if isinstance(value, torch.Tensor) else [value]
            for dim, size in enumerate(sizes):
                if not isinstance(size, torch.SymInt):
                    continue
                expression = size.node.expr
                unknown |= expression.free_symbols
                if expression.is_Symbol and expression not in self.symbols and not is_ragged(size):
                    self._sizes.append(size)
                    self.symbols.append(expression)
                    self._found_in.append((expression, number, dim if isinstance(value, torch.Tensor) else None))
        self.complete = unknown <= set(self.symbols)
        """Whether those are all."""
        self._uneven = [e for e in _numbers(graph) if not e.is_polynomial() and e.free_symbols <= set(self.symbols)]

    def of(self, arguments: Sequence[Any]) -> np.ndarray:
        """Their values for these arguments, in order."""
        found = [arguments[k] if d is None else arguments[k].shape[d] for _, k, d in self._found_in]
        return np.array(found, np.int64)

    def named(self, values: np.ndarray) -> dict[Symbol, int]:
        """Such values by their symbols."""
        return dict(zip(self.symbols, values.tolist(), strict=True))

    def uneven(self, sizes: range, values: Callable[[int], np.ndarray]) -> Symbol | None:
        """A number of the graph that has no equal steps from size to size; None if all have. `values` are a size's."""
        for expression in self._uneven:
            found = (int(expression.xreplace(self.named(values(size)))) for size in sizes)
            steps = (after - before for before, after in pairwise(found))
            first = next(steps, 0)
            if any(step != first for step in steps):
                return expression
        return None

    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the most that they can be in this graph: for others, Dynamo makes another one."""
        ranges = [size.node.shape_env.bound_sympy(s) for size, s in zip(self._sizes, self.symbols, strict=True)]
        ends = [(int(max(r.lower, LEAST)), int(min(r.upper, ENDLESS))) for r in ranges]
        least, most = np.array(ends, np.int64).reshape(-1, 2).T
        return least, most

    def arguments(self, given: Sequence[Any], values: Mapping[Symbol, int]) -> list[Any]:
        """Arguments for other values, of which the tensors have no memory where their size depends on them."""
        pairs = enumerate(zip(self._values, given, strict=True))
        return [own if k in self.passed_on else self._argument(value, own, values) for k, (value, own) in pairs]

    def _argument(self, value: Any, given: Any, values: Mapping[Symbol, int]) -> Any:
        if isinstance(value, torch.SymInt) and not is_ragged(value):
            return evaluated(value, values)
        if not isinstance(value, torch.Tensor) or all(isinstance(d, int) for d in value.shape):
            return given
        return torch.empty([evaluated(d, values) for d in value.shape], dtype=given.dtype, device="meta")


def is_ragged(size: Any) -> bool:
    """Whether a size is that of a nested tensor's ragged dimension, which stands for the tensor's offsets."""
    return isinstance(size, torch.SymInt) and size.node.is_nested_int()


def _numbers(graph: GraphModule) -> set[Symbol]:
    """The expressions of all sizes of values, and of all integers that are computed of sizes."""
    values = [value for node in graph.graph.nodes for value in as_list(node.meta.get("val"))]
    numbers = [n for value in values for n in (value.shape if isinstance(value, torch.Tensor) else [value])]
    return {n.node.expr for n in numbers if isinstance(n, torch.SymInt) and not is_ragged(n)}


def _depended(graph: GraphModule) -> set[Symbol]:
    """The symbols of the sizes of all values, of the strides of results, and of where what is read by strides lies.

    Other arguments may lie in memory in any way."""
    found: set[Symbol] = set()
    for node in graph.graph.nodes:
        of_results = node.args[0] if node.op == "output" else ()
        strided = [n.meta.get("val") for n in as_list(of_results) if isinstance(n, Node)]
        numbers: list[Any] = [d for value in strided if isinstance(value, torch.Tensor) for d in value.stride()]
        if node.target in STRIDED:
            source = node.args[0]
            assert isinstance(source, Node)
            for read in (source.meta["val"], owner(source).meta["val"]):
                numbers += [read.storage_offset(), *read.stride()]
        for value in as_list(node.meta.get("val")):
            if isinstance(value, torch.Tensor):
                numbers += value.shape
            elif node.op != "placeholder":
                numbers.append(value)
        symbolic = [n for n in numbers if isinstance(n, (torch.SymInt, torch.SymFloat, torch.SymBool))]
        found = found.union(*[n.node.expr.free_symbols for n in symbolic if not is_ragged(n)])
    return found


def _is_result(node: Node) -> bool:
    return all(user.op == "output" for user in node.users)


def numbers_of(arguments: Any, values: Mapping[Symbol, int]) -> Any:
    """Arguments of an operator that are sizes, or lists of such, as numbers."""
    return tree_map(lambda each: evaluated(each.meta["val"], values) if isinstance(each, Node) else each, arguments)
