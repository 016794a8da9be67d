"""Dense parts of a memory of one dimension, as the gradients in a bucket are: all of them are one recorded operator.

DDP writes every gradient into its bucket, and reads it there once the bucket has been reduced. What is written is
noted, and recorded when the memory is read; where that was all of it, a part that is read brings all others with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from xloom.hlo import dtype as dt
from xloom.hlo.instruction import Instruction
from xloom.torch.lazy.recording.operation import apply, record
from xloom.torch.lazy.recording.trace import Value
from xloom.torch.lazy.tensor.array_type import ArrayType
from xloom.torch.lazy.tensor.storage import Storage, View
from xloom.torch.lowering import Graph, lower
from xloom.torch.strides import inverse

Key = tuple[int, ArrayType]
"""Where a stretch begins, and what it holds."""
_MOST_NOTED = 1024


class Stretch(View):
    """Elements of a memory from one on, as a tensor whose dimensions lie there in some order."""

    __slots__ = ("key",)

    memory = None
    overlaps = False
    through = frozenset()
    moves_only = True

    def __init__(self, storage: Storage, type: ArrayType, start: int):
        self.storage = storage
        self.type = type
        self.key: Key = (start, type)
        self._value: Value | None = None
        self._version = -1

    def read(self) -> Value:
        """The value now."""
        storage = self.storage
        if self._version == storage.version and self._value is not None:
            return self._value
        notes = storage.notes
        value = None
        if notes is not None and storage.make is notes and not storage.has_value:
            value = notes.last(self.key)
        if value is None:
            base = storage.read()
            value = _one(base, *self.key) if notes is None else notes.taken(self.key, base, storage.version)
        self._keep(value)
        return value

    def write(self, value: Value, factor: float = 1.0) -> None:
        """Replaces this part of the memory, by the value times the factor."""
        storage = self.storage
        if storage.__class__ is not Storage:  # it has grown
            storage.write(apply(_written, storage.read(), (_described(self.key, factor),), value))
            return
        notes = storage.notes
        if notes is None:
            notes = storage.notes = Notes(storage.type.size)
        if storage.make is not notes or storage.has_value:
            storage.make = notes.begun(storage)
        notes.add(self.key, value, factor)
        self._value = None  # this memory's value is what is kept
        storage.version += 1
        if notes.are_many:
            storage.read()


class Notes:
    """What was written to stretches of a memory since it was last read."""

    __slots__ = ("_before", "_layout", "_noted", "_parts", "_size", "_version")

    def __init__(self, size: int):
        self._size = size
        self._before: Callable[[], Value] | None = None
        """What makes the value from before."""
        self._noted: dict[Key, tuple[Value, float]] = {}
        self._layout: tuple[Key, ...] = ()
        """The stretches that filled all of the memory when it was last made of such."""
        self._parts: dict[Key, Value] = {}
        self._version = -1

    def begun(self, storage: Storage) -> Notes:
        """Itself, which makes the storage's value from now on."""
        self._before = storage.taken()
        self._noted = {}
        self._parts = {}
        return self

    def add(self, key: Key, value: Value, factor: float) -> None:
        """Notes a value, and a factor, that is the latest."""
        self._noted.pop(key, None)
        self._noted[key] = value, factor

    @property
    def are_many(self) -> bool:
        """Whether they are to be recorded at once."""
        return len(self._noted) >= _MOST_NOTED

    def last(self, key: Key) -> Value | None:
        """The value of a stretch, if it was the last one that was written."""
        if next(reversed(self._noted), None) != key:
            return None
        value, factor = self._noted[key]
        return value if factor == 1.0 else apply(_scaled, value, factor)

    def __call__(self) -> Value:
        """The memory's value; nothing is noted any more."""
        noted, before, self._noted, self._before = self._noted, self._before, {}, None
        assert before is not None
        ordered = sorted(noted, key=_start)
        ends = [start + type.size for start, type in ordered]
        if [0, *ends] == [*map(_start, ordered), self._size]:
            self._layout = tuple(ordered)
            factors = {noted[key][1] for key in ordered}
            common = factors.pop() if len(factors) == 1 else 1.0
            parts = tuple([_described(key, 1.0 if not factors else noted[key][1]) for key in ordered])
            return apply(_joined, parts, common, *[noted[key][0] for key in ordered])
        parts = tuple([_described(key, factor) for key, (_, factor) in noted.items()])
        return apply(_written, before(), parts, *[value for value, _ in noted.values()])

    def taken(self, key: Key, base: Value, version: int) -> Value:
        """A stretch of the memory's value. The first one brings those with it that all of it was last made of."""
        if self._version != version:
            self._version = version
            self._parts = {}
            if key in self._layout:
                parts = tuple([_described(each) for each in self._layout])
                self._parts = dict(zip(self._layout, record(_cut, base, parts), strict=True))
        found = self._parts.pop(key, None)
        return _one(base, *key) if found is None else found


def _start(key: Key) -> int:
    return key[0]


class _Part(NamedTuple):
    """A stretch, for what is recorded."""

    start: int
    dims: tuple[int, ...]
    order: tuple[int, ...]
    factor: float


def _described(key: Key, factor: float = 1.0) -> _Part:
    start, type = key
    assert type.order is not None
    return _Part(start, type.dims, type.order, factor)


def _one(base: Value, start: int, type: ArrayType) -> Value:
    return apply(_stretch, base, start, type.dims, type.order)


# -- what is recorded


def _scaled(g: Graph, x: Instruction, factor: float) -> Instruction:
    return x if factor == 1.0 else lower(g, torch.ops.aten.mul.Tensor, (x, factor), {})


def _flat(g: Graph, x: Instruction, part: _Part) -> Instruction:
    return g.reshape_to(g.permute(_scaled(g, x, part.factor), part.order), (x.shape.size,))


def _joined(g: Graph, parts: Sequence[_Part], factor: float, *values: Instruction) -> Instruction:
    flat = [_flat(g, value, part) for value, part in zip(values, parts, strict=True)]
    return _scaled(g, g.concat(flat, 0), factor)


def _written(g: Graph, base: Instruction, parts: Sequence[_Part], *values: Instruction) -> Instruction:
    for value, part in zip(values, parts, strict=True):
        base = g.dynamic_update_slice(base, _flat(g, value, part), g.scalar(part.start, dt.s32))
    return base


def _cut(g: Graph, base: Instruction, parts: Sequence[_Part]) -> list[Instruction]:
    return [_stretch(g, base, part.start, part.dims, part.order) for part in parts]


def _stretch(g: Graph, base: Instruction, start: int, dims: tuple[int, ...], order: tuple[int, ...]) -> Instruction:
    flat = g.slice_along(base, 0, start, start + math.prod(dims), 1)
    return g.permute(g.reshape_to(flat, [dims[k] for k in order]), inverse(order))
