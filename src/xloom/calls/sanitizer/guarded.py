"""The buffers of one call, each guarded, and what became of them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xloom.calls.sanitizer.memory import Region
from xloom.calls.sanitizer.poison import poison, poisoned, unwritten
from xloom.hlo.dtype import DType
from xloom.hlo.shape import Shape


class NonFiniteWarning(UserWarning):
    """A custom call made NaNs or infinities of finite numbers."""


@dataclass(frozen=True)
class GuardedArray:
    """An array in a region; `name` is what it is to the call, such as `operand 1`."""

    name: str
    array: np.ndarray
    region: Region
    dtype: DType

    def element(self, offset: int) -> str:
        """Where in (or outside) the array a byte is."""
        return element_at(self.name, self.array, offset)

    def index(self, number: int) -> str:
        """The index of the element that is `number`-th in memory."""
        return index_of(self.array, number)


def element_at(name: str, array: np.ndarray, offset: int) -> str:
    """Where in an array, or outside of it, a byte is."""
    number = offset // array.itemsize
    if number < 0:
        return f"{-number} elements before {name}" if number < -1 else f"the element before {name}"
    if number >= array.size:
        past = number - array.size + 1
        return f"{past} elements past the end of {name}" if past > 1 else f"the element past the end of {name}"
    return f"element {index_of(array, number)} of {name}"


def index_of(array: np.ndarray, number: int) -> str:
    """The index of the element that is `number`-th in an array's memory."""
    order = np.argsort(array.strides, kind="stable")[::-1] if array.ndim else []
    memory = [array.shape[d] for d in order]
    found = np.unravel_index(number, memory) if memory else ()
    index = [0] * array.ndim
    for d, i in zip(order, found, strict=True):
        index[d] = int(i)
    return str(index)


class GuardedCall:
    """Operands and outputs of one call, in guarded memory; `edge` is as a Region has it."""

    def __init__(self, edge: str = "") -> None:
        self._edge = edge
        self._inputs: list[GuardedArray] = []
        self._outputs: list[GuardedArray] = []
        self._poisoned: list[GuardedArray] = []
        self._begin: list[np.ndarray] = []

    def place(self, value: Any, shape: Shape, name: str) -> Any:
        """Copies of an operand, to be protected."""
        if shape.is_tuple:
            elements = zip(value, shape.elements, strict=True)
            return tuple(self.place(v, s, _part(name, k)) for k, (v, s) in enumerate(elements))
        if not shape.is_array:
            return None
        guarded = self._array(shape, np.shape(value), name)
        guarded.array[...] = value
        self._inputs.append(guarded)
        return guarded.array

    def allocate(self, shape: Shape, name: str, *, poisoned: bool) -> Any:
        """Outputs, that start as poison or as zeros."""
        if shape.is_tuple:
            return tuple(self.allocate(s, _part(name, k), poisoned=poisoned) for k, s in enumerate(shape.elements))
        if not shape.is_array:
            return None
        guarded = self._array(shape, shape.dims, name)
        if poisoned:
            poison(guarded.region.data, shape.dtype)
            self._poisoned.append(guarded)
        else:
            guarded.array[...] = np.zeros((), guarded.array.dtype)
        self._outputs.append(guarded)
        return guarded.array

    def _array(self, shape: Shape, dims: Sequence[int], name: str) -> GuardedArray:
        order = shape.major_to_minor
        dtype = shape.dtype.numpy
        region = Region(int(np.prod(dims, dtype=np.int64)) * dtype.itemsize, self._edge)
        flat = region.data.view(dtype).reshape([dims[d] for d in order])
        return GuardedArray(name, flat.transpose(np.argsort(order)) if order else flat, region, shape.dtype)

    def is_operand_too(self, array: np.ndarray) -> None:
        """Says that an output has an operand's values."""
        self._poisoned = [g for g in self._poisoned if g.array is not array]

    def protect(self) -> None:
        """Makes the operands read-only: what is to be called has its memory now."""
        for guarded in self._inputs:
            guarded.region.protect()
        self._begin = self.outputs()

    def outputs(self) -> list[np.ndarray]:
        """Copies of the outputs' bytes."""
        return [guarded.region.data.copy() for guarded in self._outputs]

    def set_outputs(self, contents: Sequence[np.ndarray] | None = None) -> None:
        """Gives the outputs these bytes, or those that they had before the call."""
        for guarded, data in zip(self._outputs, self._begin if contents is None else contents, strict=True):
            guarded.region.data[...] = data

    def flip_poison(self) -> None:
        """Inverts what poisoned outputs start with."""
        for guarded in self._poisoned:
            guarded.region.data ^= 0xFF

    @property
    def results(self) -> list[GuardedArray]:
        """The outputs."""
        return self._outputs

    @property
    def arrays(self) -> list[GuardedArray]:
        """All of them, the operands first."""
        return [*self._inputs, *self._outputs]

    def describe(self, address: int, wrote: bool | None) -> str:
        """What an access to `address` is to this call."""
        for guarded in (*self._outputs, *self._inputs):
            offset = guarded.region.offset_of(address)
            if offset is not None:
                inside = 0 <= offset < guarded.region.nbytes
                wrote = wrote or (inside and guarded in self._inputs) or wrote
                verb = "accessed" if wrote is None else "wrote to" if wrote else "read"
                return f"{verb} {guarded.element(offset)}"
        return f"accessed address {address:#x}, which is in none of its buffers"

    def damage(self) -> list[str]:
        """What it wrote outside its buffers."""
        guarded = (*self._outputs, *self._inputs)
        return [f"wrote to {g.element(offset)}" for g in guarded for offset in g.region.damage()]

    def doubtful(self, used: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """The numbers of elements of outputs that are used that may have been written what they started with."""
        found = {g.name: poisoned(g.region.data, g.dtype) for g in self._poisoned if any(g.array is u for u in used)}
        return {name: numbers for name, numbers in found.items() if numbers.size}

    def unwritten(self, used: Sequence[np.ndarray], certain: Mapping[str, np.ndarray] | None = None) -> list[str]:
        """What it did not write of the outputs that are used: what is sure by itself, or the numbers in `certain`."""
        found = []
        for guarded in self._poisoned:
            if not any(guarded.array is u for u in used):
                continue
            if certain is None:
                numbers = unwritten(guarded.region.data, guarded.dtype)
            else:
                numbers = certain.get(guarded.name, np.empty(0, np.int64))
            if numbers.size:
                more = f" and {numbers.size - 1} more" if numbers.size > 1 else ""
                found.append(f"did not write element {guarded.index(int(numbers[0]))}{more} of {guarded.name}")
        return found

    def warn_of_non_finite(self, used: Sequence[np.ndarray], what: str, where: str) -> None:
        """Warns of NaNs and infinities in outputs that are used, unless operands have some."""
        if any(_non_finite(g).size for g in self._inputs):
            return
        for guarded in self._outputs:
            wrong = _non_finite(guarded)
            if wrong.size and any(guarded.array is u for u in used):
                flat = guarded.region.data.view(guarded.array.dtype)
                value, place = flat[wrong[0]], guarded.index(int(wrong[0]))
                more = f", and {wrong.size - 1} more are not finite" if wrong.size > 1 else ""
                text = f"{what} made {value} of finite operands: element {place} of {guarded.name}{more} (at {where})"
                warnings.warn(NonFiniteWarning(text), stacklevel=2)


def _non_finite(guarded: GuardedArray) -> np.ndarray:
    """The numbers of the elements, in memory order."""
    if not (guarded.dtype.is_float or guarded.dtype.is_complex):
        return np.empty(0, np.int64)
    with np.errstate(all="ignore"):
        return np.flatnonzero(~np.isfinite(guarded.region.data.view(guarded.array.dtype)))


def _part(name: str, number: int) -> str:
    """`result` to `result {1}`, and that to `result {1,2}`."""
    return f"{name[:-1]},{number}}}" if name.endswith("}") else f"{name} {{{number}}}"
