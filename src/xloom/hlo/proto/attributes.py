"""Which part of HloInstructionProto each attribute of each opcode is.

Called computations are not here but in `proto_decode` and `proto_encode`, which know the ids.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from xloom.errors import ParseError, ShapeError
from xloom.hlo.instruction import Instruction
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.proto import codecs

_BY_NAME: dict[str, codecs.Codec] = {
    "algorithm": codecs.enum("precision_config.algorithm", "algorithm"),
    "api_version": codecs.enum("custom_call_api_version", "api_version"),
    "async_execution_thread": codecs.THREAD,
    "batch_group_count": codecs.at_least_one("batch_group_count"),
    "channel_id": codecs.CHANNEL,
    "collapsed_slice_dims": codecs.ints("gather_dimension_numbers.collapsed_slice_dims"),
    "constrain_layout": codecs.scalar("constrain_layout"),
    "convolution_kind": codecs.enum("conv_kind", "convolution_kind"),
    "cross_program_prefetch_index": codecs.PREFETCH_INDEX,
    "custom_call_has_side_effect": codecs.scalar("custom_call_has_side_effect"),
    "custom_call_target": codecs.text_field("custom_call_target"),
    "delta": codecs.scalar("delta"),
    "dim_labels": codecs.DIM_LABELS,
    "dimensions": codecs.ints("dimensions"),
    "direction": codecs.word("comparison_direction", "direction"),
    "distribution": codecs.enum("distribution", "distribution"),
    "domain": codecs.DOMAIN,
    "dynamic_slice_sizes": codecs.ints("dynamic_slice_sizes"),
    "epsilon": codecs.scalar("epsilon"),
    "exponent_bits": codecs.scalar("exponent_bits"),
    "feature_group_count": codecs.at_least_one("feature_group_count"),
    "feature_index": codecs.scalar("feature_index"),
    "fft_length": codecs.ints("fft_length"),
    "fft_type": codecs.enum("fft_type", "fft_type"),
    "has_dynamic_root": codecs.scalar("has_dynamic_root"),
    "index": codecs.scalar("tuple_index"),
    "index_vector_dim": codecs.scalar("gather_dimension_numbers.index_vector_dim"),
    "indices_are_sorted": codecs.scalar("indices_are_sorted"),
    "infeed_config": codecs.text_field("infeed_config"),
    "inferred_dimension": codecs.one_dimension(),
    "input_batching_dims": codecs.ints("scatter_dimension_numbers.input_batching_dims"),
    "inserted_window_dims": codecs.ints("scatter_dimension_numbers.inserted_window_dims"),
    "iota_dimension": codecs.one_dimension(),
    "is_associative": codecs.TRI_STATE,
    "is_composite": codecs.scalar("is_composite"),
    "is_host_transfer": codecs.scalar("is_host_transfer"),
    "is_reverse": codecs.scalar("is_reverse"),
    "is_stable": codecs.scalar("is_stable"),
    "k": codecs.scalar("k"),
    "kind": codecs.word("fusion_kind", "fusion_kind"),
    "largest": codecs.scalar("largest"),
    "left_side": codecs.scalar("triangular_solve_options.left_side"),
    "lhs_batch_dims": codecs.ints("dot_dimension_numbers.lhs_batch_dimensions"),
    "lhs_contracting_dims": codecs.ints("dot_dimension_numbers.lhs_contracting_dimensions"),
    "lhs_ragged_dims": codecs.ints("ragged_dot_dimension_numbers.lhs_ragged_dimensions"),
    "literal": codecs.LITERAL,
    "lower": codecs.scalar("triangular_solve_options.lower"),
    "mantissa_bits": codecs.scalar("mantissa_bits"),
    "num_carries": codecs.scalar("num_carries"),
    "offset_dims": codecs.ints("gather_dimension_numbers.offset_dims"),
    "operand_batching_dims": codecs.ints("gather_dimension_numbers.operand_batching_dims"),
    "operand_layout_constraints": codecs.LAYOUT_CONSTRAINTS,
    "operand_precision": codecs.PRECISION,
    "outfeed_config": codecs.text_field("outfeed_config"),
    "outfeed_shape": codecs.OUTFEED_SHAPE,
    "output_to_operand_aliasing": codecs.ALIASING,
    "padding": codecs.PADDING,
    "padding_type": codecs.enum("padding_type", "padding_type"),
    "parameter_number": codecs.scalar("parameter_number"),
    "parameter_replication": codecs.ints("parameter_replication.replicated_at_leaf_buffers"),
    "replica_groups": codecs.REPLICA_GROUPS,
    "result_accuracy": codecs.ACCURACY,
    "rhs_batch_dims": codecs.ints("dot_dimension_numbers.rhs_batch_dimensions"),
    "rhs_contracting_dims": codecs.ints("dot_dimension_numbers.rhs_contracting_dimensions"),
    "rhs_group_dims": codecs.ints("ragged_dot_dimension_numbers.rhs_group_dimensions"),
    "scatter_dims_to_operand_dims": codecs.ints("scatter_dimension_numbers.scatter_dims_to_operand_dims"),
    "scatter_indices_batching_dims": codecs.ints("scatter_dimension_numbers.scatter_indices_batching_dims"),
    "schedule": codecs.enum("custom_call_schedule", "schedule"),
    "slice": codecs.SLICE,
    "slice_sizes": codecs.ints("gather_slice_sizes"),
    "source_target_pairs": codecs.SOURCE_TARGET,
    "sparsity_config": codecs.SPARSITY,
    "start_index_map": codecs.ints("gather_dimension_numbers.start_index_map"),
    "start_indices_batching_dims": codecs.ints("gather_dimension_numbers.start_indices_batching_dims"),
    "transpose_a": codecs.enum("triangular_solve_options.transpose_a", "transpose"),
    "type": codecs.COMPARISON_TYPE,
    "unique_indices": codecs.scalar("unique_indices"),
    "unit_diagonal": codecs.scalar("triangular_solve_options.unit_diagonal"),
    "update_window_dims": codecs.ints("scatter_dimension_numbers.update_window_dims"),
    "use_global_device_ids": codecs.scalar("use_global_device_ids"),
    "window": codecs.WINDOW,
}

_RAGGED = "ragged_dot_dimension_numbers.dot_dimension_numbers."
# what an attribute of the same name is for one opcode only
_BY_OPCODE: dict[tuple[str, str], codecs.Codec] = {
    ("cholesky", "lower"): codecs.scalar("cholesky_options.lower"),
    ("collective-permute", "slice_sizes"): codecs.SLICE_SIZES,
    ("collective-permute-start", "slice_sizes"): codecs.SLICE_SIZES,
    ("custom-call", "window"): codecs.if_set("window", codecs.WINDOW),
    ("ragged-dot", "lhs_batch_dims"): codecs.ints(_RAGGED + "lhs_batch_dimensions"),
    ("ragged-dot", "lhs_contracting_dims"): codecs.ints(_RAGGED + "lhs_contracting_dimensions"),
    ("ragged-dot", "rhs_batch_dims"): codecs.ints(_RAGGED + "rhs_batch_dimensions"),
    ("ragged-dot", "rhs_contracting_dims"): codecs.ints(_RAGGED + "rhs_contracting_dimensions"),
    ("rng-bit-generator", "algorithm"): codecs.enum("rng_algorithm", "rng_algorithm"),
    ("scatter", "index_vector_dim"): codecs.scalar("scatter_dimension_numbers.index_vector_dim"),
}

# options that XLA demands even when all of them have their default values
_DEMANDED = {
    "convolution": ("window", "convolution_dimension_numbers"),
    "dot": ("dot_dimension_numbers",),
    "gather": ("gather_dimension_numbers",),
    "pad": ("padding_config",),
    "ragged-dot": ("ragged_dot_dimension_numbers",),
    "scaled-dot": ("dot_dimension_numbers",),
    "scatter": ("scatter_dimension_numbers",),
}


class AttributeCodec(NamedTuple):
    """An attribute of one opcode: its name, whether it must be there, its default, and its codec."""

    name: str
    required: bool
    default: Any
    codec: codecs.Codec


@cache
def codecs_of(opcode: str) -> tuple[AttributeCodec, ...]:
    """The attributes of an opcode that the message has a place for, called computations aside."""
    out = []
    for name, use in OPCODES[opcode].attributes.items():
        codec = _BY_OPCODE.get((opcode, name)) or _BY_NAME.get(name)
        if codec is not None:
            out.append(AttributeCodec(name, use.required, use.info.default, codec))
    return tuple(out)


def read_attributes(opcode: str, message: Any, operands: codecs.Operands) -> dict[str, Any]:
    """The attributes of an instruction, but for called computations. Raises ParseError for a missing or bad one."""
    attrs: dict[str, Any] = {}
    for name, required, default, codec in codecs_of(opcode):
        try:
            value = codec.read(message, operands)
        except ShapeError as error:
            raise ParseError(error.message, where=name) from error
        if value is None:
            if required:
                raise ParseError(f"{opcode} lacks {name}", where=name)
        elif required or value != default:
            attrs[name] = value
    return attrs


def write_attributes(instruction: Instruction, message: Any) -> None:
    """Fills in the attributes of an instruction, but for called computations."""
    opcode, attrs = instruction.opcode, instruction.attrs
    for field in _DEMANDED.get(opcode, ()):
        getattr(message, field).SetInParent()
    for name, _, default, codec in codecs_of(opcode):
        value = attrs.get(name, default)
        if value is not None:
            codec.write(value, message)
