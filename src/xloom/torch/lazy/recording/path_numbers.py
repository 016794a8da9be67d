"""The numbers in what was recorded, apart from the rest: paths of one structure differ in them only."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from xloom.torch.lazy.recording.signature import Hoisted, HostNumber, Input, Signature
from xloom.torch.lazy.recording.trace_program import argument_shapes

if TYPE_CHECKING:
    from xloom.torch.lazy.recording.trace import Node

_MOST = 1 << 31
"""Ints from here on are no sizes."""
_SEQUENCES = (list, tuple, torch.Size)


class PathNumbers(NamedTuple):
    """What a path has in common with those of other sizes, and what not."""

    structure: Hashable
    numbers: np.ndarray
    """The dimensions of its arguments, then the ints that its operators are given."""
    dims: int
    """How many are dimensions."""


def path_numbers(path: Sequence[Node]) -> PathNumbers:
    """Those of the path to a node."""
    shapes = argument_shapes(path)
    numbers = [d for shape in shapes for d in shape.dims]
    dims = len(numbers)
    structure: list[Hashable] = [tuple([(shape.dtype, shape.rank) for shape in shapes])]
    for node in path:
        assert node.signature is not None
        own, found = _of(node.signature)
        structure += [own, node.refs]
        numbers += found
    return PathNumbers(tuple(structure), np.array(numbers, np.int64), dims)


def given(path: Sequence[Node], numbers: Iterator[int]) -> list[tuple[Sequence[Any], Mapping[str, Any]]]:
    """The arguments of each operator with other ints."""
    found = []
    for node in path:
        assert node.signature is not None
        args = _with(node.signature.args, numbers)
        found.append((args, {name: _with(each, numbers) for name, each in node.signature.kwargs.items()}))
    return found


def _of(signature: Signature) -> tuple[Hashable, list[int]]:
    if signature.structure is None:
        numbers: list[int] = []
        args = _without(signature.args, numbers)
        kwargs = tuple([(name, _without(each, numbers)) for name, each in signature.kwargs.items()])
        types = tuple([(each.dtype, len(each.dims)) for each in (*signature.inputs, *signature.outputs)])
        structure = (signature.rule, args, kwargs, types)
        try:
            hash(structure)
        except TypeError:
            structure = (signature,)  # it is like no other
        signature.structure = structure, numbers
    return signature.structure


def _without(value: Any, numbers: list[int]) -> Hashable:
    kind = value.__class__
    if _is_number(value):
        numbers.append(value)
        return int
    if kind in _SEQUENCES:
        return (kind, *[_without(each, numbers) for each in value])
    if kind is Input:
        return kind, value.index
    if kind is Hoisted:
        return kind, value.index, value.kind
    if kind is HostNumber:
        return kind, value.index, value.dtype
    return kind, value


def _with(value: Any, numbers: Iterator[int]) -> Any:
    if _is_number(value):
        return next(numbers)
    if value.__class__ in _SEQUENCES:
        return type(value)([_with(each, numbers) for each in value])
    return value


def _is_number(value: Any) -> bool:
    return value.__class__ is int and -_MOST < value < _MOST
