"""Custom calls."""

from __future__ import annotations

from typing import Any

from xloom.hlo.attributes import Alias
from xloom.hlo.opcodes import ENUMS
from xloom.hlo.shape import Layout, Shape, tuple_shape
from xloom.stablehlo.translate.rules import NotTranslatedError, rule
from xloom.stablehlo.translate.scope import Scope
from xloom.stablehlo.translate.types import ints

_API_VERSIONS = {number: name for name, number in ENUMS["api_version"].items()}
_TYPED = "mhlo.backend_config"
"""The attributes of a call by the typed FFI."""
_ELSEWHERE = frozenset({
    "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement", "mhlo.topk", "topk",
    "ApproxTopK", "PartialReduce", "tpu_custom_call", "LayoutConstraint", "xla.sdy.FuncResultSharding",
    "stablehlo.dynamic_reduce_window", "stablehlo.dynamic_rng_bit_generator", "stablehlo.dynamic_top_k",
})  # fmt: skip
"""Targets that stand for something else."""


@rule(
    "stablehlo.custom_call",
    attributes="call_target_name has_side_effect backend_config api_version called_computations operand_layouts"
    " result_layouts output_operand_aliases mhlo.backend_config sdy.sharding_rule",
)
def _custom_call(s: Scope, op: Any) -> None:
    attributes = op.operation.attributes
    target = attributes["call_target_name"].value
    if target in _ELSEWHERE or target.startswith(("mhlo.", "chlo.", "stablehlo.", "xla.")):
        raise NotTranslatedError(f"custom call {target}")
    if "called_computations" in attributes and len(attributes["called_computations"]):
        raise NotTranslatedError("called_computations")
    operands = s.values(op.operands)
    shapes = [s.shape(r) for r in op.results]
    attrs: dict[str, Any] = {"custom_call_target": target}
    if "has_side_effect" in attributes and attributes["has_side_effect"].value:
        attrs["custom_call_has_side_effect"] = True
    version = _API_VERSIONS[attributes["api_version"].value if "api_version" in attributes else 1]
    if _TYPED in attributes:  # which says it, whatever the version is
        version = "API_VERSION_TYPED_FFI"
    if version != "API_VERSION_ORIGINAL":
        attrs["api_version"] = version
    if "operand_layouts" in attributes and "result_layouts" in attributes:
        rows = zip(operands, attributes["operand_layouts"], strict=True)
        attrs["operand_layout_constraints"] = tuple(_lying(o.shape, layout) for o, layout in rows)
        shapes = [_lying(x, layout) for x, layout in zip(shapes, attributes["result_layouts"], strict=True)]
    elif "operand_layouts" in attributes or "result_layouts" in attributes:
        raise NotTranslatedError("layouts of one side")
    if "output_operand_aliases" in attributes:
        attrs["output_to_operand_aliasing"] = tuple(
            Alias(ints(a.output_tuple_indices), a.operand_index, ints(a.operand_tuple_indices))
            for a in map(s.program.dialect.OutputOperandAlias, attributes["output_operand_aliases"])
        )
    call = s.add("custom-call", shapes[0] if len(shapes) == 1 else tuple_shape(shapes), operands, attrs)
    call.backend_config = _config(attributes)
    if "sdy.sharding_rule" in attributes:
        call.frontend_attributes = {"xla.sdy.sharding_rule": str(attributes["sdy.sharding_rule"])}
    if len(shapes) == 1:
        s.define(op.results[0], call)
    else:
        s.define_elements(list(op.results), call)


def _config(attributes: Any) -> str:
    """A string as it is, a dictionary as MLIR prints it."""
    name = _TYPED if _TYPED in attributes else "backend_config"
    if name not in attributes:
        return ""
    config = attributes[name]
    text = getattr(config, "value", None)
    return text if isinstance(text, str) else str(config)


def _lying(shape: Shape, layout: Any) -> Shape:
    if not shape.is_array:
        return shape
    return shape.with_layout(Layout(tuple(map(int, layout))))
