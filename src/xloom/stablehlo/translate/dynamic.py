"""Slices, gathers and scatters at indices that are computed."""

from __future__ import annotations

from typing import Any

from xloom.stablehlo.translate.reduce import region
from xloom.stablehlo.translate.rules import rule
from xloom.stablehlo.translate.scope import Scope
from xloom.stablehlo.translate.types import ints


@rule("stablehlo.dynamic_slice", attributes="slice_sizes")
def _dynamic_slice(s: Scope, op: Any) -> None:
    s.emit(op, "dynamic-slice", {"dynamic_slice_sizes": ints(op.operation.attributes["slice_sizes"])})


@rule("stablehlo.dynamic_update_slice")
def _dynamic_update_slice(s: Scope, op: Any) -> None:
    s.emit(op, "dynamic-update-slice")


@rule("stablehlo.gather", attributes="dimension_numbers slice_sizes indices_are_sorted")
def _gather(s: Scope, op: Any) -> None:
    attributes = op.operation.attributes
    numbers = s.program.dialect.GatherDimensionNumbers(attributes["dimension_numbers"])
    attrs: dict[str, Any] = {
        "offset_dims": ints(numbers.offset_dims),
        "collapsed_slice_dims": ints(numbers.collapsed_slice_dims),
        "start_index_map": ints(numbers.start_index_map),
        "index_vector_dim": numbers.index_vector_dim,
        "slice_sizes": ints(attributes["slice_sizes"]),
    }
    _add_lists(attrs, numbers, ("operand_batching_dims", "start_indices_batching_dims"))
    _add_promises(attrs, attributes)
    s.emit(op, "gather", attrs)


@rule("stablehlo.scatter", attributes="scatter_dimension_numbers indices_are_sorted unique_indices")
def _scatter(s: Scope, op: Any) -> None:
    attributes = op.operation.attributes
    numbers = s.program.dialect.ScatterDimensionNumbers(attributes["scatter_dimension_numbers"])
    attrs: dict[str, Any] = {
        "update_window_dims": ints(numbers.update_window_dims),
        "inserted_window_dims": ints(numbers.inserted_window_dims),
        "scatter_dims_to_operand_dims": ints(numbers.scattered_dims_to_operand_dims),
        "index_vector_dim": numbers.index_vector_dim,
    }
    _add_lists(attrs, numbers, ("input_batching_dims", "scatter_indices_batching_dims"))
    _add_promises(attrs, attributes)
    attrs["to_apply"] = region(s, op.regions[0])
    s.emit(op, "scatter", attrs)


def _add_lists(attrs: dict[str, Any], numbers: Any, names: tuple[str, ...]) -> None:
    for name in names:
        if found := ints(getattr(numbers, name)):
            attrs[name] = found


def _add_promises(attrs: dict[str, Any], attributes: Any) -> None:
    for name in ("indices_are_sorted", "unique_indices"):
        if name in attributes and attributes[name].value:
            attrs[name] = True
