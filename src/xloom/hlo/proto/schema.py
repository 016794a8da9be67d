"""XLA's protobuf messages, as far as HLO modules need them: names, numbers and types on one table.

The descriptors are built from the table at first use, in a pool of their own, so that there is no generated code to
fit to a protobuf version, and no clash with the same messages in TensorFlow or JAX.

Types: `text` (a string, kept as bytes: not every string in the wild is UTF-8), `enum` (its number), `packed` (packed
fixed-width numbers, kept as the bytes that NumPy takes), `part` (an embedded message, kept as bytes, since it repeats
and is read once), protobuf's own, and messages; `*` is repeated. A map is a repeated `Entry`.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

_TABLE = {
    # -- modules
    "Module": """1 name text; 2 entry_computation_name text; 3 computations Computation*;
        4 host_program_shape ProgramShape; 5 id int64; 6 entry_computation_id int64; 7 schedule Schedule;
        8 input_output_alias InputOutputAlias; 10 cross_program_prefetches part*; 11 is_dynamic bool;
        12 spmd_output_sharding part; 13 profile_info part*; 14 spmd_parameters_shardings part*;
        15 device_assignment part; 16 use_auto_spmd_partitioning bool; 17 stack_frame_index StackFrameIndex;
        18 buffer_donor BufferDonor; 19 frontend_attributes FrontendAttributes;
        20 original_value_recovery_table RecoveryTable; 21 device_type text; 22 payloads bytes*; 23 pjrt_id int64;
        24 debug_attributes DebugAttributes*""",
    "HloProto": "1 hlo_module Module",
    "HloSnapshot": "1 hlo HloProto",
    "Computation": """1 name text; 2 instructions Instruction*; 4 program_shape ProgramShape; 5 id int64;
        6 root_id int64; 7 is_fusion_computation bool; 8 execution_thread text""",
    "ProgramShape": "1 parameters part*; 2 result part; 3 parameter_names text*",
    "Schedule": "1 sequences ScheduleEntry*",
    "ScheduleEntry": "1 key int64; 2 value InstructionSequence",
    "InstructionSequence": "1 instruction_ids int64*",
    "InputOutputAlias": "1 entries AliasEntry*",
    "AliasEntry": "1 output_shape_index int64*; 2 parameter_number int64; 3 parameter_shape_index int64*; 4 kind enum",
    "BufferDonor": "1 entries DonorEntry*",
    "DonorEntry": "1 parameter_number int64; 2 parameter_shape_index int64*",
    "StackFrameIndex": """1 file_names text*; 2 function_names text*; 3 file_locations FileLocation*;
        4 stack_frames StackFrame*""",
    "FileLocation": """1 file_name_id int32; 2 function_name_id int32; 3 line int32; 4 column int32; 5 end_line int32;
        6 end_column int32""",
    "StackFrame": "1 file_location_id int32; 2 parent_frame_id int32",
    "RecoveryTable": "1 entries RecoveryEntry*",
    "RecoveryEntry": "1 old_original_array OriginalArray; 2 new_original_array OriginalArray; 3 recovery_module Module",
    "DebugAttributes": "1 original_array OriginalArray; 2 debug_attributes DebugAttribute*",
    "DebugAttribute": "1 log_mode enum; 2 callback_id int64; 3 op_id int64; 4 partitioned bool",
    # -- instructions
    "Instruction": """1 name text; 2 opcode text; 3 shape part; 7 metadata part; 8 literal Literal;
        9 parameter_number int64; 11 fusion_kind text; 13 tuple_index int64; 14 dimensions int64*; 15 window Window;
        16 convolution_dimension_numbers ConvolutionDimensions; 17 slice_dimensions SliceDimensions*;
        18 exponent_bits int32; 19 mantissa_bits int32; 20 dynamic_slice_sizes int64*; 21 padding_config PaddingConfig;
        22 outfeed_config bytes; 23 distribution enum; 24 epsilon float; 25 feature_index int64; 26 channel_id int64;
        27 infeed_config bytes; 28 custom_call_target text; 29 outfeed_shape part;
        30 dot_dimension_numbers DotDimensions; 31 fft_type enum; 32 fft_length int64*;
        33 gather_dimension_numbers GatherDimensions; 34 gather_slice_sizes int64*; 35 id int64; 36 operand_ids int64*;
        37 control_predecessor_ids int64*; 38 called_computation_ids int64*; 40 sharding part; 43 backend_config bytes;
        45 all_reduce_id int64; 47 is_host_transfer bool; 48 scatter_dimension_numbers ScatterDimensions;
        49 replica_groups ReplicaGroup*; 50 feature_group_count int64; 51 precision_config PrecisionConfig;
        52 source_target_pairs SourceTarget*; 54 domain_entry_sharding part; 55 domain_exit_sharding part;
        56 constrain_layout bool; 57 operand_shapes_with_layout part*; 58 batch_group_count int64;
        59 triangular_solve_options TriangularSolveOptions; 60 is_stable bool;
        61 parameter_replication ParameterReplication; 62 cholesky_options CholeskyOptions;
        63 comparison_direction text; 65 custom_call_has_side_effect bool; 66 delta int64; 67 indices_are_sorted bool;
        68 frontend_attributes part; 69 unique_indices bool; 70 rng_algorithm enum;
        71 use_global_device_ids bool; 72 comparison_type text; 73 is_cross_program_prefetch bool;
        74 output_operand_aliasing OutputOperandAliasing*; 75 padding_type enum; 76 custom_call_schedule enum;
        77 custom_call_api_version enum; 79 async_execution_thread text; 80 cross_program_prefetch_index int32;
        81 k int64; 82 statistics_viz part; 85 largest bool; 87 collective_device_list CollectiveDeviceList;
        88 original_value OriginalValue; 89 is_composite bool; 90 ragged_dot_dimension_numbers RaggedDotDimensions;
        91 result_accuracy ResultAccuracy; 92 iota_collective_device_list IotaReplicaGroupList;
        93 mesh_axes_replica_group_list MeshAxesReplicaGroupList; 94 is_reverse bool; 95 num_carries int64;
        96 is_associative enum; 97 conv_kind enum; 98 sparsity_config SparsityConfig; 99 backend_config_payload Payload;
        100 has_dynamic_root bool""",
    "Payload": "1 value bytes; 2 id int64",
    "OpMetadata": """1 op_type text; 2 op_name text; 3 source_file text; 4 source_line int32; 5 profile_type enum*;
        8 size_of_generated_code_in_bytes int64; 9 size_of_memory_working_set_in_bytes int64; 12 deduplicated_name text;
        15 stack_frame_id int32; 16 scheduling_name text; 17 source_end_line int32; 18 source_column int32;
        19 source_end_column int32; 20 metadata_payload Payload""",
    "FrontendAttributes": "1 map AttributeEntry*",
    "AttributeEntry": "1 key text; 2 value text",
    "StatisticsViz": "1 stat_index_to_visualize int64; 2 statistics Statistic*",
    "Statistic": "1 stat_name text; 2 stat_val double",
    "OriginalArray": "1 instruction_name text; 2 shape_index int64*",
    "OriginalValue": "1 elements OriginalValueElement*; 2 is_synthetic_call bool",
    "OriginalValueElement": "1 shape_index int64*; 2 original_array OriginalArray",
    # -- shapes and values
    "Shape": """2 element_type enum; 3 dimensions int64*; 4 tuple_shapes Shape*; 5 layout Layout;
        6 is_dynamic_dimension bool*""",
    "Layout": """1 minor_to_major int64*; 6 tiles Tile*; 7 element_size_in_bits int64; 8 memory_space int64;
        10 physical_shape Shape; 11 index_primitive_type enum; 12 pointer_primitive_type enum;
        15 dynamic_shape_metadata_prefix_bytes int64; 16 tail_padding_alignment_in_elements int64;
        17 split_configs SplitConfig*""",
    "Tile": "1 dimensions int64*",
    "SplitConfig": "1 dimension int64; 2 split_indices int64*",
    "Literal": """1 shape part; 2 preds packed*; 3 u8s bytes; 4 s32s int32*; 5 s64s int64*; 6 u32s uint32*;
        7 u64s uint64*; 8 f32s packed*; 9 f64s packed*; 10 tuple_literals Literal*; 11 f16s bytes; 12 c64s packed*;
        13 bf16s bytes; 15 s8s bytes; 16 u16s bytes; 17 s16s bytes; 18 c128s packed*; 19 f8e5m2s bytes;
        20 f8e4m3fns bytes; 21 s4s bytes; 22 u4s bytes; 23 f8e4m3b11fnuzs bytes; 24 f8e5m2fnuzs bytes;
        25 f8e4m3fnuzs bytes; 26 s2s bytes; 27 u2s bytes; 28 f8e4m3s bytes; 29 f8e3m4s bytes; 30 s1s bytes;
        31 u1s bytes; 32 f4e2m1fns bytes; 33 f8e8m0fnus bytes; 34 dynamic_sizes int32*; 35 f6e3m2fns bytes;
        36 f6e2m3fns bytes""",
    # -- dimension numbers and options
    "Window": "1 dimensions WindowDimension*",
    "WindowDimension": """1 size int64; 2 stride int64; 3 padding_low int64; 4 padding_high int64;
        5 window_dilation int64; 6 base_dilation int64; 7 window_reversal bool""",
    "ConvolutionDimensions": """3 kernel_input_feature_dimension int64; 4 kernel_output_feature_dimension int64;
        6 kernel_spatial_dimensions int64*; 7 input_batch_dimension int64; 8 input_feature_dimension int64;
        9 output_batch_dimension int64; 10 output_feature_dimension int64; 11 input_spatial_dimensions int64*;
        12 output_spatial_dimensions int64*""",
    "SliceDimensions": "1 start int64; 2 limit int64; 3 stride int64",
    "PaddingConfig": "1 dimensions PaddingConfigDimension*",
    "PaddingConfigDimension": "1 edge_padding_low int64; 2 edge_padding_high int64; 3 interior_padding int64",
    "DotDimensions": """1 lhs_contracting_dimensions int64*; 2 rhs_contracting_dimensions int64*;
        3 lhs_batch_dimensions int64*; 4 rhs_batch_dimensions int64*""",
    "RaggedDotDimensions": """1 dot_dimension_numbers DotDimensions; 2 lhs_ragged_dimensions int64*;
        3 rhs_group_dimensions int64*""",
    "GatherDimensions": """1 offset_dims int64*; 2 collapsed_slice_dims int64*; 3 start_index_map int64*;
        4 index_vector_dim int64; 5 operand_batching_dims int64*; 6 start_indices_batching_dims int64*""",
    "ScatterDimensions": """1 update_window_dims int64*; 2 inserted_window_dims int64*;
        3 scatter_dims_to_operand_dims int64*; 4 index_vector_dim int64; 5 input_batching_dims int64*;
        6 scatter_indices_batching_dims int64*""",
    "PrecisionConfig": "1 operand_precision enum*; 2 algorithm enum",
    "SparsityConfig": "1 lhs TensorSparsity; 2 rhs TensorSparsity",
    "TensorSparsity": "1 num_non_zero int64; 2 block_size int64; 3 dimension int64; 4 stride int64",
    "SourceTarget": "1 source int64; 2 target int64",
    "TriangularSolveOptions": "1 left_side bool; 2 lower bool; 3 unit_diagonal bool; 4 transpose_a enum",
    "CholeskyOptions": "1 lower bool",
    "ParameterReplication": "1 replicated_at_leaf_buffers bool*",
    "OutputOperandAliasing": "1 output_shape_index int64*; 2 operand_index int64; 3 operand_shape_index int64*",
    "ResultAccuracy": "1 mode enum; 2 tolerance Tolerance",
    "Tolerance": "1 atol double; 2 rtol double; 3 ulps int64",
    # -- devices
    "ReplicaGroup": "1 replica_ids int64*",
    "CollectiveDeviceList": "1 replica_groups ReplicaGroup*",
    "IotaReplicaGroupList": """1 num_replica_groups int64; 2 num_devices_per_group int64; 3 iota_reshape_dims int64*;
        4 iota_transpose_perm int32*""",
    "MeshAxesReplicaGroupList": "1 mesh Mesh; 2 axes AxisRef*",
    "Mesh": "1 axes MeshAxis*; 2 device_ids int64*; 3 iota_transform IotaTransform",
    "MeshAxis": "1 name text; 2 size int64",
    "IotaTransform": "1 reshape_dims int64*; 2 transpose_perm int64*",
    "AxisRef": "1 mesh_axis_index int64; 2 sub_axis_info SubAxis",
    "SubAxis": "1 pre_size int64; 2 size int64",
    "OpSharding": """1 type enum; 3 tile_assignment_dimensions int64*; 4 tile_assignment_devices int64*;
        5 tuple_shardings OpSharding*; 6 replicate_on_last_tile_dim bool; 7 metadata OpMetadata*;
        8 last_tile_dims enum*; 9 iota_reshape_dims int64*; 10 iota_transpose_perm int32*; 11 is_shard_group bool;
        12 shard_group_id int64; 13 shard_group_type enum; 14 named_sharding NamedSharding""",
    "NamedSharding": """2 mesh Mesh; 3 dim_shardings DimensionSharding*; 4 replicated_axes AxisRef*;
        5 unreduced_axes AxisRef*; 6 metadata OpMetadata*; 7 manual_axes AxisRef*""",
    "DimensionSharding": "1 axes AxisRef*; 2 is_closed bool",
}

_PACKAGE = "xloom.xla"
_SCALARS = {
    "text": "TYPE_BYTES",
    "bytes": "TYPE_BYTES",
    "packed": "TYPE_BYTES",
    "part": "TYPE_BYTES",
    "enum": "TYPE_INT32",
    "bool": "TYPE_BOOL",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "uint32": "TYPE_UINT32",
    "uint64": "TYPE_UINT64",
    "float": "TYPE_FLOAT",
    "double": "TYPE_DOUBLE",
}


@cache
def messages() -> Any:
    """A namespace of message classes (`messages().Module`) and `DecodeError`.

    Raises MissingExtraError without protobuf.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        from google.protobuf.message import DecodeError
    except ImportError as error:
        from xloom.errors import MissingExtraError

        raise MissingExtraError("HloModuleProto needs the package protobuf", hint="pip install protobuf") from error
    field_type = descriptor_pb2.FieldDescriptorProto
    # proto2, so that every field knows whether it is set
    file = descriptor_pb2.FileDescriptorProto(name="xloom/hlo.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in _TABLE.items():
        message = file.message_type.add(name=name)
        for entry in fields.split(";"):
            number, field_name, kind = entry.split()
            repeated, kind = kind.endswith("*"), kind.rstrip("*")
            field = message.field.add(name=field_name, number=int(number))
            field.label = field_type.LABEL_REPEATED if repeated else field_type.LABEL_OPTIONAL
            if kind in _SCALARS:
                field.type = getattr(field_type, _SCALARS[kind])
                if repeated and field.type != field_type.TYPE_BYTES:
                    field.options.packed = True
            else:
                field.type = field_type.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{n}")) for n in _TABLE}
    return SimpleNamespace(**found, DecodeError=DecodeError)
