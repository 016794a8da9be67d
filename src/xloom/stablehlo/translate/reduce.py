"""Reductions, windows and sorts: operations that apply a region to elements."""

from __future__ import annotations

from typing import Any

from xloom.hlo.attributes import WindowDimension
from xloom.hlo.computation import Computation
from xloom.stablehlo.translate.rules import rule
from xloom.stablehlo.translate.scope import Scope, only_block
from xloom.stablehlo.translate.types import ints
from xloom.stablehlo.translate.windows import window


def region(s: Scope, blocks: Any) -> Computation:
    """The computation of a region that reads nothing from outside but constants."""
    block = only_block(blocks)
    inner = Scope(s.program, "region", s)
    inner.parameters(block, "Arg")
    return inner.finish(inner.tuple(inner.block(block)))


@rule("stablehlo.reduce", attributes="dimensions")
def _reduce(s: Scope, op: Any) -> None:
    dims = ints(op.operation.attributes["dimensions"])
    s.emit(op, "reduce", {"dimensions": dims, "to_apply": region(s, op.regions[0])})


@rule("stablehlo.map", attributes="dimensions")
def _map(s: Scope, op: Any) -> None:
    dims = ints(op.operation.attributes["dimensions"])
    s.emit(op, "map", {"dimensions": dims, "to_apply": region(s, op.regions[0])})


@rule("stablehlo.sort", attributes="dimension is_stable")
def _sort(s: Scope, op: Any) -> None:
    attributes = op.operation.attributes
    rank = len(s.shape(op.operands[0]).dims)
    dimension = attributes["dimension"].value if "dimension" in attributes else -1
    attrs: dict[str, Any] = {"dimensions": (dimension % rank if rank else 0,)}
    if "is_stable" in attributes and attributes["is_stable"].value:
        attrs["is_stable"] = True
    s.emit(op, "sort", {**attrs, "to_apply": region(s, op.regions[0])})


@rule(
    "stablehlo.reduce_window",
    attributes="window_dimensions window_strides base_dilations window_dilations padding",
)
def _reduce_window(s: Scope, op: Any) -> None:
    s.emit(op, "reduce-window", {"window": _window(op), "to_apply": region(s, op.regions[0])})


@rule("stablehlo.select_and_scatter", attributes="window_dimensions window_strides padding")
def _select_and_scatter(s: Scope, op: Any) -> None:
    select, scatter = (region(s, r) for r in op.regions)
    s.emit(op, "select-and-scatter", {"window": _window(op), "select": select, "scatter": scatter})


def _window(op: Any) -> tuple[WindowDimension, ...]:
    attributes = op.operation.attributes
    return window(attributes, ints(attributes["window_dimensions"]), "window_dilations", "base_dilations")
