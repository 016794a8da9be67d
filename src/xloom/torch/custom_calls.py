"""Operators of `torch.library` as custom calls: what runs is a target that xloom has registered."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from xloom.errors import UnsupportedError
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape, tuple_shape
from xloom.torch.dtypes import hlo_dtype, torch_dtype
from xloom.torch.lowering import Graph, lowers
from xloom.torch.lowering.registry import spelled

TYPED = "API_VERSION_TYPED_FFI"


def custom_call(operator: Any, target: str, *, api_version: str = "API_VERSION_ORIGINAL") -> None:
    """Makes an operator a custom call of `target`, on the device and under torch.compile.

    `operator` is what `torch.library.custom_op` gives; its fake kernel says the results' shapes. Tensors are operands.
    Other arguments are attributes: of a typed handler by name, and for other interfaces JSON in `backend_config`.
    """
    op = getattr(operator, "_opoverload", operator)
    if op._schema.is_mutable:
        raise UnsupportedError(f"{op} changes its arguments", hint="a custom call gives results and changes nothing")
    names = [argument.name for argument in op._schema.arguments]

    def lowering(g: Graph, **given: Any) -> Any:
        values = [given[spelled(name)] for name in names]
        results = op(*[without_memory(value) for value in values])
        attributes = {n: v for n, v in zip(names, values, strict=True) if not _is_tensor(v)}
        operands = [value for value in values if _is_tensor(value)]
        opaque = _spelled(attributes, api_version)
        return called(g, target, operands, results, opaque=opaque, api_version=api_version)

    first = inspect.Parameter("g", inspect.Parameter.POSITIONAL_ONLY)
    rest = [inspect.Parameter(spelled(name), inspect.Parameter.KEYWORD_ONLY) for name in names]
    lowering.__signature__ = inspect.Signature([first, *rest])  # type: ignore[attr-defined]
    lowers(str(op))(lowering)


def called(g: Graph, target: str, operands: Sequence[Instruction], results: Any, **options: Any) -> Any:
    """A call of `target` that gives what has the shapes and dtypes of `results`: one tensor, or several."""
    several = not isinstance(results, torch.Tensor)
    shapes = [array_shape(hlo_dtype(r.dtype), tuple(r.shape)) for r in (results if several else [results])]
    call = g.custom_call(target, operands, tuple_shape(shapes) if several else shapes[0], **options)
    return [g.get_tuple_element(call, index=k) for k in range(len(shapes))] if several else call


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Instruction)


def without_memory(value: Any) -> Any:
    """A tensor that stands for an instruction's value where only its shape and dtype matter; others as they are."""
    if not _is_tensor(value):
        return value
    return torch.empty(value.shape.dims, dtype=torch_dtype(value.shape.dtype), device="meta")


def _spelled(attributes: Mapping[str, Any], api_version: str) -> str:
    if not attributes:
        return ""
    if api_version != TYPED:
        return json.dumps(attributes)
    return "{" + ", ".join(f"{name} = {_attribute(value)}" for name, value in attributes.items()) + "}"


def _attribute(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value} : i64"
    if isinstance(value, float):
        return f"{value!r} : f64"
    if isinstance(value, str):
        return json.dumps(value)
    hint = "attributes are bool, int, float, str: pass others as tensors, or take the JSON of backend_config"
    raise UnsupportedError(f"a typed handler has no attribute for {value!r}", hint=hint)
