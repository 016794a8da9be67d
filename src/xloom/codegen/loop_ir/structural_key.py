"""When two nests are the same but for the arrays that they work on: a key that only equal ones have."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

import numpy as np

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nest import LoopNest
from xloom.codegen.loop_ir.nodes import Node, Reduction
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.llvm.scalar.operator import Operator


def nest_key(nest: LoopNest, numbers: Mapping[BufferValue, int], types_of: Callable[[BufferValue], DType]) -> Hashable:
    """The key of a nest whose arrays have these numbers."""
    keys = _Keys(numbers, types_of)
    keys.add(nest.outer)
    for stage in nest.stages:
        keys.add(stage.vars)
        for store in stage.stores:
            keys.add((store.target, store.target in nest.private, store.target in nest.returned))
            keys.add((store.address, store.node))
    ranks = {number: rank for rank, number in enumerate(sorted(keys.variables))}
    return tuple([_Variable(ranks[t.number]) if type(t) is _Variable else t for t in keys.tokens])


class _Variable:
    """A variable by its number: which of two comes first matters, and whether they are the same."""

    __slots__ = ("number",)

    def __init__(self, number: int):
        self.number = number

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Variable) and other.number == self.number


class _Keys:
    """Writes down a graph as a row of tokens; what was there before is named by its place."""

    def __init__(self, numbers: Mapping[BufferValue, int], types_of: Callable[[BufferValue], DType]):
        self.tokens: list[Hashable] = []
        self.variables: set[int] = set()
        self._numbers = numbers
        self._types_of = types_of
        self._places: dict[Hashable, int] = {}
        self._rest: list[Any] = []
        """What is yet to be written down, the next last."""

    def add(self, value: Any) -> None:
        """Writes down a value and what it consists of."""
        self._rest.append(value)
        while self._rest:
            value = self._rest.pop()
            kind = type(value)
            if kind in _PLAIN:
                self.tokens.append((kind, value))
                continue
            writer = _writers.get(kind)
            if writer is None:
                writer = _writers[kind] = _writer(kind)
            writer(self, value)

    def _then(self, values: Sequence[Any]) -> None:
        """Has values written down next, in their order."""
        self._rest.extend(reversed(values))

    def _float(self, value: float) -> None:
        self.tokens.append(value.hex())

    def _sequence(self, value: Sequence[Any]) -> None:
        if len(value) == 2 and isinstance(value[0], Instruction) and isinstance(value[1], int):
            self._source((value[0], value[1]))
            return
        self.tokens.append(len(value))
        self._then(value)

    def _array(self, value: Any) -> None:
        array = np.asarray(value)
        self.tokens.extend((array.dtype.name, array.shape, array.tobytes()))

    def _named(self, value: Any) -> None:
        self.tokens.append((type(value), str(value)))

    def _is_new(self, key: Hashable) -> bool:
        place = self._places.setdefault(key, len(self._places))
        self.tokens.append(("at", place))
        return place == len(self._places) - 1

    def _variable(self, var: Var) -> None:
        self.variables.add(var.number)
        self.tokens.append(_Variable(var.number))
        if self._is_new(("variable", var.number)):
            self.tokens.append(var.size)
            self._then([var.node])

    def _source(self, source: BufferValue) -> None:
        self.tokens.append(self._numbers.get(source, -1))
        if self._is_new(("source", source)):
            self._then([self._types_of(source)])

    def _record(self, value: Any) -> None:
        if not isinstance(value, (Node, Reduction)) or self._is_new(id(value)):
            self.tokens.append(type(value))
            self._then([getattr(value, name) for name in _field_names(type(value))])


_PLAIN = frozenset({type(None), int, bool, str, Operator})
"""Types of values that are tokens themselves."""

_writers: dict[type, Callable[[_Keys, Any], None]] = {}
"""How values are written down, by their type."""


def _writer(kind: type) -> Callable[[_Keys, Any], None]:
    for kinds, writer in (
        (float, _Keys._float),
        (Var, _Keys._variable),
        ((tuple, list), _Keys._sequence),
        ((np.ndarray, np.generic), _Keys._array),
        (DType, _Keys._named),
        ((Affine, Node, Reduction), _Keys._record),
    ):
        if issubclass(kind, kinds):
            return writer
    raise TypeError(f"a {kind.__name__} in a loop nest")


@lru_cache(maxsize=64)
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
