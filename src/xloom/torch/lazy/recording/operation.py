"""Operators of the device's own: the parts of views and writes that are no operators of torch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xloom.torch.lazy.recording.signature import Emit, Hoisted, Input, Number, Signature
from xloom.torch.lazy.recording.trace import TRACE, Value
from xloom.torch.lazy.recording.trimming import remember
from xloom.torch.lazy.tensor.array_type import ArrayType

_signatures: dict[tuple, Signature] = {}


def apply(build: Callable[..., Any], *arguments: Any) -> Value:
    """The value of `build(graph, *arguments)`, where values among the arguments are its inputs, the others hashable.

    A Number among them is a Scalar where one that is recorded at the same place differs from run to run.
    """
    return record(build, *arguments)[0]


def record(build: Callable[..., Any], *arguments: Any) -> list[Value]:
    """The same, where `build` gives several."""
    values: list[Value] = []
    key: list[Any] = [build]
    for each in arguments:
        if each.__class__ is Value:
            values.append(each)
            key.append(each.type)
        else:
            key.append(each)
    with TRACE.lock:
        node = TRACE.known(key, values)
        if node is not None:
            return TRACE.go(node, ())
        what, scalars = tuple(key), []
        numbers = [float(each) for each in arguments if each.__class__ is Number]
        if numbers:
            without = [Number if each.__class__ is Number else each for each in key]
            node = TRACE.known(without, values)
            if node is not None:
                return TRACE.go(node, numbers)
            if TRACE.changes(what, tuple(without), values):
                what, scalars = tuple(without), numbers
        signature = _signatures.get(what)
        if signature is None:
            signature = _signature(build, arguments, bool(scalars))
            remember(_signatures, what, signature)
        return TRACE.record(what, signature, values, scalars)


def _signature(build: Callable[..., Any], arguments: Sequence[Any], hoists: bool) -> Signature:
    values = iter(range(len(arguments)))
    numbers = iter(range(len(arguments)))
    template: list[Any] = []
    types: list[ArrayType] = []
    for each in arguments:
        if each.__class__ is Value:
            template.append(Input(next(values)))
            types.append(each.type)
        elif each.__class__ is Number:
            template.append(Hoisted(next(numbers), int) if hoists else int(each))
        else:
            template.append(each)
    name = build.__name__.strip("_").replace("_", "-")
    count = next(numbers) if hoists else 0
    emit: Emit = lambda g, args, kwargs: build(g, *args)  # noqa: E731
    return Signature(name, emit, tuple(template), {}, tuple(types), count, rule=build)
