"""Modules out of HloModuleProto."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from xloom.errors import ParseError, XloomError, near
from xloom.hlo.attributes import Metadata, StackFrames
from xloom.hlo.computation import Computation
from xloom.hlo.garbage_collection import without_collector
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import InputOutputAlias, Module, ModuleConfig
from xloom.hlo.names import sanitize
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.proto.annotations import (
    LOG_MODES,
    frontend_attributes_from_message,
    metadata_from_message,
    original_array_from_message,
    original_value_from_message,
    payload_from_message,
    statistics_from_message,
    text,
)
from xloom.hlo.proto.attributes import read_attributes
from xloom.hlo.proto.schema import messages
from xloom.hlo.proto.shapes import shape_from_bytes
from xloom.hlo.proto.shardings import sharding_from_bytes
from xloom.hlo.stack_frames import keep_used_frames

_CALLED = "called_computation_ids"
_LOCAL = 0xFFFFFFFF  # an instruction's id holds its computation's in the upper half
_UNPRINTED = (
    "cross_program_prefetches",
    "is_dynamic",
    "spmd_output_sharding",
    "profile_info",
    "spmd_parameters_shardings",
    "device_assignment",
    "use_auto_spmd_partitioning",
    "device_type",
    "pjrt_id",
)
"""Fields of a module that HLO text has no words for; they are carried along as they are."""
_WRITTEN_WRONG = "the file is damaged, or who wrote it has set that field wrongly: write it anew, or give HLO text"


@without_collector()
def decode(data: bytes) -> Module:
    """The module in a serialised HloModuleProto, or in the HloProto or HloSnapshot around one.

    Names are kept as they are. Raises ParseError whose `where` is the path of the field that is wrong.
    """
    return _decode_module(_find_module(data), "")


def _find_module(data: bytes) -> Any:
    kinds = messages()
    for unwrap in (
        lambda: kinds.Module.FromString(data),
        lambda: kinds.HloProto.FromString(data).hlo_module,
        lambda: kinds.HloSnapshot.FromString(data).hlo.hlo_module,
    ):
        try:
            message = unwrap()
        except kinds.DecodeError:
            continue
        if message.computations and message.HasField("host_program_shape"):
            return message
    raise ParseError("the bytes are not a HloModuleProto, HloProto or HloSnapshot", where="HloModuleProto")


def _fail(error: Exception, path: str, name: bytes = b"") -> NoReturn:
    """Raises ParseError at the field that `error` names within `path`; `name` is the instruction's there."""
    where = f"{path}.{error.where}" if isinstance(error, XloomError) and error.where else path
    if name:
        where += f" (%{text(name)})"
    if isinstance(error, XloomError):
        raise ParseError(error.message, where=where, hint=error.hint or _WRITTEN_WRONG) from error
    raise ParseError(f"malformed: {error}", where=where, hint=_WRITTEN_WRONG) from error


def _decode_module(message: Any, path: str) -> Module:
    module = Module(text(message.name))
    payloads = tuple(message.payloads)
    metadata: dict[bytes, Metadata] = {}
    computations: dict[int, Computation] = {}
    orders: dict[int, dict[int, Instruction]] = {}
    for k, one in enumerate(message.computations):
        at = f"{path}computations[{k}]"
        if one.id in computations:
            raise ParseError(f"computation id {one.id} stands twice", where=f"{at}.id")
        computations[one.id], orders[one.id] = _Decoder(computations, payloads, metadata, at).computation(one)
    entry = computations.get(message.entry_computation_id)
    if entry is None:
        raise ParseError(
            f"there is no computation with id {message.entry_computation_id}", where=f"{path}entry_computation_id"
        )
    _check_names(computations.values(), path)
    # the list is in post-order; ids tell the module's own order
    for number in sorted(computations):
        module.add(computations[number], entry=computations[number] is entry, unique=False)
    if message.HasField("schedule"):
        _decode_schedule(message.schedule, computations, orders, f"{path}schedule")
        module.config.is_scheduled = True
    try:
        _decode_config(message, module, entry)
    except (XloomError, messages().DecodeError) as error:
        _fail(error, f"{path}host_program_shape")
    _decode_tables(message, module, path)
    keep_used_frames(module)
    return module


def _check_names(computations: Iterable[Computation], path: str) -> None:
    seen: set[str] = set()
    names: set[str] = set()
    for k, computation in enumerate(computations):
        at = f"{path}computations[{k}]"
        if computation.name in names:
            raise ParseError(f"two computations are named {computation.name!r}", where=f"{at}.name")
        names.add(computation.name)
        for j, instruction in enumerate(computation._instructions):
            if instruction.name in seen:
                raise ParseError(
                    f"two instructions are named {instruction.name!r}", where=f"{at}.instructions[{j}].name"
                )
            seen.add(instruction.name)


def _decode_schedule(
    message: Any, computations: dict[int, Computation], orders: dict[int, dict[int, Instruction]], path: str
) -> None:
    for entry in message.sequences:
        computation = computations.get(entry.key)
        if computation is None:
            continue  # removed since
        by_id = orders[entry.key]
        order = [by_id.get(i & _LOCAL) for i in entry.value.instruction_ids]
        if len(order) != len(by_id) or len(set(order)) != len(order) or None in order:
            raise ParseError(
                f"the schedule of {computation.name} does not hold each of its instructions once",
                where=f"{path}.sequences[{entry.key}]",
            )
        computation.reorder(order)  # type: ignore[arg-type]


def _decode_config(message: Any, module: Module, entry: Computation) -> None:
    config: ModuleConfig = module.config
    shape = message.host_program_shape
    config.parameter_layouts = [shape_from_bytes(p) for p in shape.parameters]
    config.result_layout = shape_from_bytes(shape.result)
    shapes = [*(p.shape for p in entry.parameters), entry.root.shape]
    written = [*config.parameter_layouts, config.result_layout]
    if len(written) != len(shapes) or not all(a.compatible(b) for a, b in zip(written, shapes, strict=True)):
        raise ParseError(f"the program shape is not that of the entry computation {entry.name}")
    config.input_output_alias = [
        InputOutputAlias(
            tuple(e.output_shape_index), e.parameter_number, tuple(e.parameter_shape_index), must=e.kind != 1
        )
        for e in message.input_output_alias.entries
    ]
    donors = {(e.parameter_number, tuple(e.parameter_shape_index)) for e in message.buffer_donor.entries}
    config.buffer_donors = sorted(donors)
    unprinted = messages().Module()
    for field, value in message.ListFields():
        if field.name in _UNPRINTED:
            if isinstance(value, (bool, int, bytes)):
                setattr(unprinted, field.name, value)
            else:
                getattr(unprinted, field.name).extend(value)
    config.unprinted = unprinted.SerializeToString()


def _decode_tables(message: Any, module: Module, path: str) -> None:
    module.frontend_attributes = frontend_attributes_from_message(message.frontend_attributes)
    if message.HasField("stack_frame_index"):
        index = message.stack_frame_index
        module.stack_frames = StackFrames(
            tuple(map(text, index.file_names)),
            tuple(map(text, index.function_names)),
            tuple(
                (f.file_name_id, f.function_name_id, f.line, f.end_line, f.column, f.end_column)
                for f in index.file_locations
            ),
            tuple((f.file_location_id, f.parent_frame_id) for f in index.stack_frames),
        )
    rows = []
    for k, entry in enumerate(message.original_value_recovery_table.entries):
        recovery = None
        if entry.HasField("recovery_module"):
            recovery = _decode_module(entry.recovery_module, f"{path}original_value_recovery_table.entries[{k}].")
        old, new = (
            original_array_from_message(getattr(entry, side)) if entry.HasField(side) else None
            for side in ("old_original_array", "new_original_array")
        )
        rows.append((old, new, recovery))
    module.origin_recovery_table = rows or None
    module.debug_attributes = [
        (original_array_from_message(row.original_array), tuple(map(_debug_attribute, row.debug_attributes)))
        for row in message.debug_attributes
    ] or None


def _debug_attribute(message: Any) -> str:
    fields = {
        "log_mode": LOG_MODES.get(message.log_mode),
        "callback_id": message.callback_id,
        "partitioned": "true" if message.partitioned else "",
        "op_id": message.op_id,
    }
    return ",".join(f"{name}={value}" for name, value in fields.items() if value)


class _Decoder:
    """Decodes one computation; `computations` are those before it, which it may call, and `metadata` what they had."""

    def __init__(
        self,
        computations: dict[int, Computation],
        payloads: tuple[bytes, ...],
        metadata: dict[bytes, Metadata],
        path: str,
    ):
        self.computations = computations
        self.payloads = payloads
        self.metadata = metadata
        self.path = path

    def computation(self, message: Any) -> tuple[Computation, dict[int, Instruction]]:
        """The computation, and its instructions by id."""
        computation = Computation(sanitize(text(message.name)))
        computation.execution_thread = text(message.execution_thread) or "main"
        by_id: dict[int, Instruction] = {}
        for k, one in enumerate(message.instructions):
            path = f"{self.path}.instructions[{k}]"
            number = one.id & _LOCAL
            if number in by_id or one.id < 0:
                raise ParseError(f"instruction id {one.id} stands twice or is negative", where=f"{path}.id")
            try:
                instruction = self.instruction(one, by_id)
                computation.add(instruction)
                for before in one.control_predecessor_ids:
                    instruction.add_control_predecessor(_by_id(before & _LOCAL, by_id, "control_predecessor_ids"))
            except (XloomError, messages().DecodeError) as error:
                _fail(error, path, one.name)
            by_id[number] = instruction
        root = by_id.get(message.root_id & _LOCAL)
        if root is None:
            raise ParseError(f"there is no instruction with id {message.root_id}", where=f"{self.path}.root_id")
        computation.root = root
        order = sorted(by_id)
        if order != list(by_id):
            # the list is in post-order; ids tell the computation's own order
            computation.reorder(by_id[number] for number in order)
        numbers = [p.attrs["parameter_number"] for p in computation.parameters]
        if numbers != list(range(len(numbers))):
            raise ParseError(f"the parameters have the numbers {numbers}", where=self.path)
        return computation, by_id

    def instruction(self, message: Any, by_id: dict[int, Instruction]) -> Instruction:
        """One instruction. Raises XloomError when it is not one."""
        opcode = text(message.opcode)
        row = OPCODES.get(opcode)
        if row is None:
            raise ParseError(f"unknown opcode {opcode!r}", where="opcode", hint=near(opcode, OPCODES))
        if not message.name:
            raise ParseError("an instruction has a name", where="name")
        if not message.HasField("shape"):
            raise ParseError("an instruction has a shape", where="shape")
        operands = [_by_id(i & _LOCAL, by_id, "operand_ids") for i in message.operand_ids]
        if row.arity >= 0 and len(operands) != row.arity:
            raise ParseError(f"{opcode} takes {row.arity} operands, found {len(operands)}", where="operand_ids")
        attrs = read_attributes(opcode, message, operands)
        if message.called_computation_ids:
            self.called(opcode, message, operands, attrs)
        elif row.computations and opcode != "custom-call" and opcode != "async-start":
            raise ParseError(f"{opcode} calls a computation", where=_CALLED)
        name = sanitize(text(message.name))
        try:
            shape = shape_from_bytes(message.shape)
        except (XloomError, messages().DecodeError) as error:
            _fail(error, "shape")
        instruction = Instruction(name, opcode, shape, operands, attrs)
        self.annotate(message, instruction)
        return instruction

    def called(self, opcode: str, message: Any, operands: list[Instruction], attrs: dict[str, Any]) -> None:
        """Puts called computations into their attributes."""
        called: list[Computation] = []
        for number in message.called_computation_ids:
            if number not in self.computations:
                raise ParseError(f"there is no computation {number} before this one", where=_CALLED)
            called.append(self.computations[number])
        names = OPCODES[opcode].computations
        if opcode == "custom-call":
            attrs["called_computations"] = tuple(called)
        elif opcode == "conditional":
            if not operands or len(operands) != len(called) + 1:
                raise ParseError(f"{len(called)} branches for {len(operands)} operands", where=_CALLED)
            if operands[0].shape.dtype.name != "pred":
                attrs["branch_computations"] = tuple(called)
            elif len(called) != 2:
                raise ParseError(f"{len(called)} branches for true and false", where=_CALLED)
            else:
                attrs["true_computation"], attrs["false_computation"] = called
        elif names and len(called) != len(names):
            raise ParseError(f"{opcode} calls {len(names)} computations, found {len(called)}", where=_CALLED)
        else:
            attrs.update(zip(names, called, strict=False))

    def annotate(self, message: Any, instruction: Instruction) -> None:
        """Metadata, sharding, and the rest of what does not change the instruction."""
        if data := message.metadata:
            metadata = self.metadata.get(data)
            if metadata is None:
                metadata = metadata_from_message(messages().OpMetadata.FromString(data), self.payloads)
                self.metadata[data] = metadata
            instruction.metadata = metadata
        if message.backend_config:
            instruction.backend_config = text(message.backend_config)
        elif message.HasField("backend_config_payload"):
            instruction.backend_config = text(payload_from_message(message.backend_config_payload, self.payloads))
        if message.HasField("sharding"):
            try:
                instruction.sharding = sharding_from_bytes(message.sharding).normalized(instruction.shape)
            except (XloomError, messages().DecodeError) as error:
                _fail(error, "sharding")
        # XLA writes these two for every instruction, mostly empty
        if data := message.frontend_attributes:
            attributes = messages().FrontendAttributes.FromString(data)
            instruction.frontend_attributes = frontend_attributes_from_message(attributes)
        if (data := message.statistics_viz) and (shown := messages().StatisticsViz.FromString(data)).statistics:
            instruction.attrs["statistics"] = statistics_from_message(shown)
        if message.HasField("original_value"):
            instruction.attrs["origin"] = original_value_from_message(message.original_value)


def _by_id(number: int, by_id: dict[int, Instruction], field: str) -> Instruction:
    found = by_id.get(number)
    if found is None:
        raise ParseError(f"there is no instruction {number} before this one", where=field)
    return found
