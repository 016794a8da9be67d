"""Modules into HloModuleProto."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xloom.hlo.attributes import Metadata, StackFrames
from xloom.hlo.proto.annotations import (
    LOG_MODES,
    raw,
    write_frontend_attributes,
    write_metadata,
    write_original_array,
    write_original_value,
    write_statistics,
)
from xloom.hlo.proto.attributes import write_attributes
from xloom.hlo.proto.schema import messages
from xloom.hlo.proto.shapes import shape_to_bytes
from xloom.hlo.proto.shardings import sharding_to_bytes

if TYPE_CHECKING:
    from xloom.hlo.computation import Computation
    from xloom.hlo.instruction import Instruction
    from xloom.hlo.module import Module

_NO_METADATA = Metadata()


def encode(module: Module) -> bytes:
    """A serialised HloModuleProto."""
    message = messages().Module()
    _encode_module(module, message)
    return message.SerializeToString()


def _encode_module(module: Module, message: Any) -> None:
    message.MergeFromString(module.config.unprinted)
    message.name = raw(module.name)
    message.entry_computation_name = raw(module.entry.name)
    order = module.computation_post_order()
    numbers = {computation: k for k, computation in enumerate(module.computations)}
    message.entry_computation_id = numbers[module.entry]
    fused = {c for i in module.instructions if i.opcode == "fusion" for c in i.called_computations}
    for computation in order:
        ids = _encode_computation(computation, numbers, message.computations.add())
        if computation in fused:
            message.computations[-1].is_fusion_computation = True
        elif module.config.is_scheduled:
            sequence = message.schedule.sequences.add(key=numbers[computation])
            sequence.value.instruction_ids.extend(ids[i] for i in computation)
    shape = message.host_program_shape
    shape.parameters.extend(map(shape_to_bytes, module.parameter_shapes))
    shape.parameter_names.extend(raw(p.name) for p in module.entry.parameters)
    shape.result = shape_to_bytes(module.result_shape)
    for alias in module.config.input_output_alias:
        message.input_output_alias.entries.add(
            output_shape_index=alias.output_index,
            parameter_number=alias.parameter,
            parameter_shape_index=alias.parameter_index,
            kind=2 if alias.must else 1,
        )
    for parameter, index in module.config.buffer_donors:
        message.buffer_donor.entries.add(parameter_number=parameter, parameter_shape_index=index)
    _encode_tables(module, message)


def _encode_tables(module: Module, message: Any) -> None:
    write_frontend_attributes(module.frontend_attributes, message.frontend_attributes)
    frames: StackFrames | None = module.stack_frames
    if frames is not None:
        index = message.stack_frame_index
        index.file_names.extend(map(raw, frames.file_names))
        index.function_names.extend(map(raw, frames.function_names))
        for file, function, line, end_line, column, end_column in frames.locations:
            index.file_locations.add(
                file_name_id=file,
                function_name_id=function,
                line=line,
                end_line=end_line,
                column=column,
                end_column=end_column,
            )
        for location, parent in frames.frames:
            index.stack_frames.add(file_location_id=location, parent_frame_id=parent)
    for old, new, recovery in module.origin_recovery_table or ():
        entry = message.original_value_recovery_table.entries.add()
        write_original_array(old, entry.old_original_array)
        write_original_array(new, entry.new_original_array)
        if recovery is not None:
            _encode_module(recovery, entry.recovery_module)
    modes = {word: number for number, word in LOG_MODES.items()}
    for array, attributes in module.debug_attributes or ():
        row = message.debug_attributes.add()
        write_original_array(array, row.original_array)
        for attribute in attributes:
            fields = dict(part.split("=", 1) for part in attribute.split(",") if part)
            row.debug_attributes.add(
                log_mode=modes.get(fields.get("log_mode", ""), 0),
                callback_id=int(fields.get("callback_id", 0)),
                op_id=int(fields.get("op_id", 0)),
                partitioned="partitioned" in fields,
            )


def _encode_computation(
    computation: Computation, numbers: dict[Computation, int], message: Any
) -> dict[Instruction, int]:
    upper = numbers[computation] << 32
    ids = {instruction: upper | k for k, instruction in enumerate(computation)}
    message.id = numbers[computation]
    message.name = raw(computation.name)
    message.root_id = ids[computation.root]
    if computation.execution_thread != "main":
        message.execution_thread = raw(computation.execution_thread)
    shape = message.program_shape
    parameters = computation.parameters
    shape.parameters.extend(shape_to_bytes(p.shape) for p in parameters)
    shape.parameter_names.extend(raw(p.name) for p in parameters)
    shape.result = shape_to_bytes(computation.root.shape)
    for instruction in computation.post_order():
        _encode_instruction(instruction, ids, numbers, message.instructions.add())
    return ids


def _encode_instruction(
    instruction: Instruction, ids: dict[Instruction, int], numbers: dict[Computation, int], message: Any
) -> None:
    message.id = ids[instruction]
    message.name = raw(instruction.name)
    message.opcode = raw(instruction.opcode)
    message.shape = shape_to_bytes(instruction.shape)
    message.operand_ids.extend([ids[o] for o in instruction._operands])
    if instruction._predecessors:
        message.control_predecessor_ids.extend([ids[p] for p in instruction._predecessors])
    called = instruction.called_computations
    if called:
        message.called_computation_ids.extend([numbers[c] for c in called])
    write_attributes(instruction, message)
    if instruction.metadata != _NO_METADATA:
        metadata = messages().OpMetadata()
        write_metadata(instruction.metadata, metadata)
        message.metadata = metadata.SerializeToString()
    if instruction.backend_config:
        message.backend_config = raw(instruction.backend_config)
    if instruction.sharding is not None:
        message.sharding = sharding_to_bytes(instruction.sharding)
    if instruction.frontend_attributes:
        attributes = messages().FrontendAttributes()
        write_frontend_attributes(instruction.frontend_attributes, attributes)
        message.frontend_attributes = attributes.SerializeToString()
    attrs = instruction.attrs
    if "statistics" in attrs:
        statistics = messages().StatisticsViz()
        write_statistics(attrs["statistics"], statistics)
        message.statistics_viz = statistics.SerializeToString()
    if "origin" in attrs:
        message.original_value.SetInParent()
        write_original_value(attrs["origin"], message.original_value)
