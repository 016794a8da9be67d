"""An operator with the types of its tensors and its attributes: what it gives, learnt by lowering it once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from xloom.hlo import dtype as dt
from xloom.hlo.builder import Builder
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.torch.dtypes import hlo_dtype
from xloom.torch.lazy.tensor.array_type import ArrayType, type_of_shape
from xloom.torch.lowering import Graph, Scalar
from xloom.torch.metrics import METRICS

Emit = Callable[[Graph, Sequence[Any], Mapping[str, Any]], Any]
"""Builds an operator from instructions and Python values."""

RANDOM_STATE = array_shape(dt.u64, (2,))


class Input:
    """Stands in arguments for the n-th tensor."""

    __slots__ = ("index",)

    def __init__(self, index: int):
        self.index = index


class Hoisted:
    """Stands in arguments for the n-th number that is given when the program runs; Python's type of it."""

    __slots__ = ("index", "kind")

    def __init__(self, index: int, kind: type = float):
        self.index = index
        self.kind = kind


class HostNumber:
    """Stands in arguments for a tensor of the host that is the n-th number, and in keys for any; the tensor's dtype."""

    __slots__ = ("dtype", "index")

    def __init__(self, index: int, dtype: torch.dtype):
        self.index = index
        self.dtype = dtype


class Number(int):
    """An int that may be given when the program runs: where it differs from the one that was there before."""

    __slots__ = ()


class Signature:
    """`outputs` are the types of its results; `places` says which result stands where in what it returns.

    With `random`, the generator's state is one more input and one more output, the last ones.
    """

    __slots__ = (
        *("args", "emit", "inputs", "kwargs", "name", "outputs", "places", "random", "rule", "scalars", "structure"),
    )

    def __init__(
        self,
        name: str,
        emit: Emit,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        inputs: tuple[ArrayType, ...],
        scalars: int,
        rule: Any = None,
    ):
        """`rule` is what `emit` is made of, if not itself: two of one rule differ in their arguments only."""
        self.name = name
        self.emit = emit
        self.rule = rule or emit
        self.structure: Any = None
        self.args = args
        self.kwargs = kwargs
        self.inputs = inputs
        self.scalars = scalars
        self._infer()

    def _infer(self) -> None:
        METRICS.signatures += 1
        b = Builder(self.name, source_lines=False)
        inputs = [b.parameter(each.shape) for each in self.inputs]
        scalars = [b.parameter(array_shape(dt.f64, ())) for _ in range(self.scalars)]
        graph = Graph(b, lambda: b.parameter(RANDOM_STATE))
        results = self.build(graph, inputs, scalars)
        state = graph.state
        self.random = state is not None
        alone = isinstance(results, Instruction)
        self.places = None if alone else _places(results)
        found = [results] if alone else [result for result in results if result is not None]
        if state is not None:
            found.append(state)
        self.outputs = tuple(type_of_shape(each.shape) for each in found)

    def structured(self, made: list[Any]) -> Any:
        """The results as the operator returns them."""
        places = self.places
        return made[0] if places is None else [None if place is None else made[place] for place in places]

    def input_types(self) -> tuple[ArrayType, ...]:
        """The types of its inputs, the generator's state included."""
        return (*self.inputs, self.outputs[-1]) if self.random else self.inputs

    def build(
        self,
        graph: Graph,
        inputs: Sequence[Instruction],
        scalars: Sequence[Instruction],
        given: tuple[Sequence[Any], Mapping[str, Any]] | None = None,
    ) -> Any:
        """Adds its instructions; what it returns. Raises NeedsConstants where numbers cannot be arguments.

        `given` are arguments with other numbers in them.
        """
        own_args, own_kwargs = given or (self.args, self.kwargs)
        args = [_filled(graph, each, inputs, scalars) for each in own_args]
        kwargs = {name: _filled(graph, each, inputs, scalars) for name, each in own_kwargs.items()}
        try:
            return self.emit(graph, args, kwargs)
        except Exception as error:
            if self.scalars:
                raise NeedsConstants(self.name) from error
            raise

    def is_like(self, other: Signature) -> bool:
        """Whether both are the same, but for numbers that one of them is given when the program runs."""
        if self.name != other.name or self.inputs != other.inputs or self.kwargs.keys() != other.kwargs.keys():
            return False
        mine, theirs = ([*each.args, *each.kwargs.values()] for each in (self, other))
        return len(mine) == len(theirs) and all(
            Hoisted in (a.__class__, b.__class__) or _described(a, self.inputs) == _described(b, self.inputs)
            for a, b in zip(mine, theirs, strict=True)
        )

    def __str__(self) -> str:
        given = [str(_described(each, self.inputs)) for each in self.args]
        given += [f"{name}={_described(each, self.inputs)}" for name, each in self.kwargs.items()]
        return f"{self.name}({', '.join(given)})"


class NeedsConstants(Exception):
    """The lowering has to know the numbers: they cannot be run-time arguments."""


def _places(results: Sequence[Any]) -> list[int | None]:
    places: list[int | None] = []
    count = 0
    for result in results:
        places.append(None if result is None else count)
        count += result is not None
    return places


def _filled(graph: Graph, value: Any, inputs: Sequence[Any], scalars: Sequence[Instruction]) -> Any:
    kind = type(value)
    if kind is Input:
        return inputs[value.index]
    if kind is Hoisted:
        return Scalar(scalars[value.index], value.kind)
    if kind is HostNumber:
        return graph.cast(scalars[value.index], hlo_dtype(value.dtype))
    if kind is list or kind is tuple:
        return [_filled(graph, each, inputs, scalars) for each in value]
    return value


def _described(value: Any, inputs: Sequence[ArrayType]) -> Any:
    kind = type(value)
    if kind is Input:
        return inputs[value.index]
    if kind is Hoisted:
        return value.kind.__name__
    if kind is HostNumber:
        return f"{value.dtype} of the host"
    if kind is list or kind is tuple:
        return f"[{', '.join(str(_described(each, inputs)) for each in value)}]"
    return value
