"""The table from ATen's operators to the functions that build their HLO.

@lowers("aten.add.Tensor", "aten.add.Scalar")
def add(g, x, y, alpha): ...

A lowering has the parameters of the operator's schema, by name, with `self` written x, `other` y and `from` from_; the
schema fills in defaults. Tensors come as instructions, numbers as Python's or as a Scalar, lists as lists. It returns
an instruction, or a list of them. In-place, out= and _copy forms are lowered as the functional operator is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload

from xloom.errors import LoweringError
from xloom.hlo.attributes import Metadata
from xloom.torch.lowering.graph import Graph

Lowering = Callable[..., Any]

LOWERINGS: dict[str, Lowering] = {}
"""By name, such as `aten.add.Tensor`."""

IGNORED = {"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator", "stable_out"}
"""Schema arguments that a lowering need not take: they say where a tensor lies, not what it holds."""

_OF_NEW_TENSORS = {"dtype", "layout", "device", "pin_memory"}  # what operators that make tensors take, but for out=

_SPELLED = {"self": "x", "other": "y", "from": "from_"}

_LATER_NAMES = {"grad": "grad_output"}
"""What torch has come to call an argument of some operators: their lowerings have the later name."""


def spelled(argument: str) -> str:
    """The parameter of a lowering that gets an argument of a schema."""
    return _SPELLED.get(argument, argument)


def lowers(*names: str) -> Callable[[Lowering], Lowering]:
    """Registers a function as the lowering of operators."""

    def register(function: Lowering) -> Lowering:
        for name in names:
            assert name not in LOWERINGS, f"{name} has two lowerings"
            LOWERINGS[name] = function
        return function

    return register


def lowering_name(op: OpOverload) -> str | None:
    """The row of the table that is for `op`, or None."""
    return _row(op)


def has_lowering(op: OpOverload) -> bool:
    """True when the table has `op`, or the functional operator that it is a form of."""
    return _row(op) is not None


_OTHER_LAYOUTS = {"sparse": "to_dense", "quantized": "dequantize"}
"""Kinds of tensors that HLO has not, and the method that makes others of them."""


def no_lowering(op: OpOverload) -> LoweringError:
    """The error for an operator that is not in the table."""
    for kind, dense in _OTHER_LAYOUTS.items():
        if kind in str(op):
            return LoweringError(
                f"{op}: HLO has no {kind} tensors", hint=f"call {dense}() on the CPU first, or leave them there"
            )
    return LoweringError(
        f"{op} has no lowering to HLO",
        hint="XLOOM_TORCH_FALLBACK=1 runs it on the CPU; xloom.torch.lowering.lowers registers a lowering",
    )


def lower(g: Graph, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Builds `op`. Raises LoweringError when it has no lowering."""
    name = _row(op)
    if name is None:
        raise no_lowering(op)
    before = g.metadata
    if before is None:
        g.metadata = Metadata(op_type=name)
    try:
        return _binder(op, LOWERINGS[name])(g, args, kwargs)
    finally:
        g.metadata = before


def overload(name: str) -> OpOverload:
    """The operator of a name such as `aten.add.Tensor`."""
    namespace, packet, kind = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), kind)


@cache
def _row(op: OpOverload) -> str | None:
    name = str(op)
    if name in LOWERINGS:
        return name
    functional = functional_form(op)
    return functional if functional in LOWERINGS else None


def functional_form(op: OpOverload) -> str | None:
    """The name of the operator that gives the values which `op` writes or copies; None when it is functional."""
    namespace, packet, _ = str(op).split(".")
    inputs = [a for a in op._schema.arguments if not a.is_out]
    wanted = [(a.name, str(a.type)) for a in inputs if a.name not in _OF_NEW_TENSORS]
    candidates = [packet.removesuffix("_")] if packet.endswith("_") and not packet.endswith("__") else []
    if len(inputs) < len(op._schema.arguments):
        candidates.append(packet)
    if packet.endswith("_copy"):
        candidates.append(packet.removesuffix("_copy"))
    for candidate in candidates:
        found = getattr(getattr(torch.ops, namespace), candidate, None)
        for overload_name in [] if found is None else found.overloads():
            schema = getattr(found, overload_name)._schema
            made = [(a.name, str(a.type)) for a in schema.arguments if a.name not in _OF_NEW_TENSORS]
            if made == wanted and not any(a.is_out for a in schema.arguments):
                name = f"{namespace}.{candidate}.{overload_name}"
                if name in LOWERINGS:
                    return name
    return None


@cache
def _binder(op: OpOverload, function: Lowering) -> Callable[[Graph, Sequence[Any], Mapping[str, Any]], Any]:
    """Calls `function` with the schema's arguments by name."""
    taken = inspect.signature(function).parameters
    rows: list[tuple[str, int | None, Any, str | None]] = []  # schema name, position, default, parameter
    position = 0
    for argument in op._schema.arguments:
        if argument.is_out:
            continue
        at = None if argument.kwarg_only else position
        position += 0 if argument.kwarg_only else 1
        parameter = spelled(argument.name)
        if parameter not in taken:
            parameter = _LATER_NAMES.get(parameter, parameter)
        if parameter not in taken:
            if argument.name not in IGNORED:
                raise TypeError(f"the lowering of {op} does not take {argument.name}")
            continue
        default = argument.default_value if argument.has_default_value() else None
        if argument.name == "dtype" and default is not None:  # the schema has its number; `long` is the only one
            default = torch.int64
        rows.append((argument.name, at, default, parameter))

    def bound(g: Graph, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        values = {}
        for name, at, default, parameter in rows:
            values[parameter] = args[at] if at is not None and at < len(args) else kwargs.get(name, default)
        return function(g, **values)

    return bound
