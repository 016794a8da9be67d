"""Products, convolutions, transforms and factorisations."""

from __future__ import annotations

from typing import Any

from xloom.hlo.attributes import ConvolutionDimensions
from xloom.stablehlo.translate.rules import rule
from xloom.stablehlo.translate.scope import Scope
from xloom.stablehlo.translate.types import ints
from xloom.stablehlo.translate.windows import window


def _add_precision(s: Scope, attrs: dict[str, Any], attributes: Any) -> None:
    if "precision_config" in attributes:
        wanted = tuple(s.program.dialect.PrecisionAttr(x).value.lower() for x in attributes["precision_config"])
        if any(each != "default" for each in wanted):
            attrs["operand_precision"] = wanted


@rule("stablehlo.dot_general", attributes="dot_dimension_numbers precision_config")
def _dot_general(s: Scope, op: Any) -> None:
    attributes = op.operation.attributes
    numbers = s.program.dialect.DotDimensionNumbers(attributes["dot_dimension_numbers"])
    attrs: dict[str, Any] = {
        "lhs_batch_dims": ints(numbers.lhs_batching_dimensions),
        "lhs_contracting_dims": ints(numbers.lhs_contracting_dimensions),
        "rhs_batch_dims": ints(numbers.rhs_batching_dimensions),
        "rhs_contracting_dims": ints(numbers.rhs_contracting_dimensions),
    }
    _add_precision(s, attrs, attributes)
    s.emit(op, "dot", attrs)


@rule(
    "stablehlo.convolution",
    attributes="window_strides padding lhs_dilation rhs_dilation window_reversal dimension_numbers feature_group_count"
    " batch_group_count precision_config",
)
def _convolution(s: Scope, op: Any) -> None:
    attributes = op.operation.attributes
    numbers = s.program.dialect.ConvDimensionNumbers(attributes["dimension_numbers"])
    dims = ConvolutionDimensions(
        numbers.input_batch_dimension,
        numbers.input_feature_dimension,
        ints(numbers.input_spatial_dimensions),
        numbers.kernel_input_feature_dimension,
        numbers.kernel_output_feature_dimension,
        ints(numbers.kernel_spatial_dimensions),
        numbers.output_batch_dimension,
        numbers.output_feature_dimension,
        ints(numbers.output_spatial_dimensions),
    )
    kernel = s.shape(op.operands[1]).dims
    sizes = [kernel[d] for d in dims.kernel_spatial]
    attrs: dict[str, Any] = {
        "window": window(attributes, sizes, "rhs_dilation", "lhs_dilation"),
        "dim_labels": dims,
    }
    for name in ("feature_group_count", "batch_group_count"):
        if attributes[name].value != 1:
            attrs[name] = attributes[name].value
    _add_precision(s, attrs, attributes)
    s.emit(op, "convolution", attrs)


@rule("stablehlo.fft", attributes="fft_type fft_length")
def _fft(s: Scope, op: Any) -> None:
    attributes = op.operation.attributes
    s.emit(
        op,
        "fft",
        {
            "fft_type": s.program.dialect.FftTypeAttr(attributes["fft_type"]).value,
            "fft_length": ints(attributes["fft_length"]),
        },
    )


@rule("stablehlo.cholesky", attributes="lower")
def _cholesky(s: Scope, op: Any) -> None:
    attributes = op.operation.attributes
    s.emit(op, "cholesky", {"lower": True} if "lower" in attributes and attributes["lower"].value else {})


@rule("stablehlo.triangular_solve", attributes="left_side lower unit_diagonal transpose_a")
def _triangular_solve(s: Scope, op: Any) -> None:
    attributes = op.operation.attributes
    attrs: dict[str, Any] = {n: True for n in ("left_side", "lower", "unit_diagonal") if attributes[n].value}
    s.emit(
        op,
        "triangular-solve",
        {**attrs, "transpose_a": s.program.dialect.TransposeAttr(attributes["transpose_a"]).value},
    )


@rule(
    "stablehlo.batch_norm_training",
    "stablehlo.batch_norm_grad",
    "stablehlo.batch_norm_inference",
    attributes="epsilon feature_index",
)
def _batch_norm(s: Scope, op: Any) -> None:
    attributes = op.operation.attributes
    attrs = {"epsilon": attributes["epsilon"].value, "feature_index": attributes["feature_index"].value}
    s.emit(op, op.operation.name.removeprefix("stablehlo.").replace("_", "-"), attrs)
