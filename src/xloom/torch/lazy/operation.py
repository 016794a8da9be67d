"""Operators of the device's own: the parts of views and writes that are no operators of torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xloom.torch.lazy.signature import Input, Signature
from xloom.torch.lazy.trace import TRACE, Value

_signatures: dict[tuple, Signature] = {}


def apply(build: Callable[..., Any], *arguments: Any) -> Value:
    """The value of `build(graph, *arguments)`, where values among the arguments are its inputs, the others hashable."""
    return record(build, *arguments)[0]


def record(build: Callable[..., Any], *arguments: Any) -> list[Value]:
    """The same, where `build` gives several."""
    values = [each for each in arguments if each.__class__ is Value]
    key = [build, *[each.type if each.__class__ is Value else each for each in arguments]]
    with TRACE.lock:
        node = TRACE.known(key, values)
        if node is not None:
            return TRACE.go(node, ())
    what = tuple(key)
    signature = _signatures.get(what)
    if signature is None:
        count = iter(range(len(values)))
        template = tuple([Input(next(count)) if each.__class__ is Value else each for each in arguments])
        types = tuple([value.type for value in values])
        name = build.__name__.strip("_").replace("_", "-")
        signature = Signature(name, lambda g, args, kwargs: build(g, *args), template, {}, types, 0)
        _signatures[what] = signature
    with TRACE.lock:
        return TRACE.record(what, signature, values, ())
