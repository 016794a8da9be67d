"""PJRT_Executable_* and PJRT_LoadedExecutable_*, apart from running them."""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import Any

from xloom.pjrt.capi.buffer_handles import record_address
from xloom.pjrt.capi.ctypes_structs import CArray, NamedValues, Text, bytes_at, struct
from xloom.pjrt.capi.element_types import NUMBER
from xloom.pjrt.capi.entry_points import entry_point
from xloom.pjrt.capi.float_environment import default_floats
from xloom.pjrt.capi.handles import drop, intern_handle, objects, put_at
from xloom.pjrt.capi.launch_plan import LaunchPlan
from xloom.pjrt.capi.layouts import layout_handle
from xloom.pjrt.capi.native_structs import EXECUTABLE
from xloom.pjrt.capi.serialized_bytes import return_serialized
from xloom.pjrt.capi.shardings import Shardings, of_leaves
from xloom.pjrt.executable import Executable, LoadedExecutable
from xloom.pjrt.memory_space import KINDS
from xloom.pjrt.options import CompileOptions, assignment_proto
from xloom.pjrt.protobuf_wire_format import embedded, fields, scalar

_FORMAT = Text("hlo_with_config")
_HOST_PROGRAM_SHAPE, _OUTPUT_SHARDING, _PARAMETER_SHARDINGS = 4, 12, 14  # of HloModuleProto
_KINDS = {kind: Text(kind) for kind in KINDS}


class ExecutableView:
    """An executable and what C programs see of it."""

    def __init__(self, executable: Executable):
        self.executable = executable
        self.options = executable.options
        self.num_outputs = len(executable.outputs)
        self._name = Text(executable.name)
        options = executable.options
        self._record = EXECUTABLE.new(
            num_replicas=options.num_replicas,
            num_partitions=options.num_partitions,
            num_outputs=self.num_outputs,
            name=self._name.address,
            name_size=self._name.size,
        )
        self.address = ctypes.addressof(self._record)

    @cached_property
    def fingerprint(self) -> Text:
        """A text that programs have in common only if they do the same."""
        return Text(self.executable.fingerprint)

    @cached_property
    def program(self) -> bytes:
        """The HLO module, serialised: a HloModuleProtoWithConfig."""
        module = self.executable.module.to_proto()
        program_shape = fields(module)[_HOST_PROGRAM_SHAPE][0]
        assert isinstance(program_shape, bytes)
        if self.options.num_partitions > 1:  # where older versions of jaxlib look for what the extension says
            module += self.parameter_shardings.as_fields(_PARAMETER_SHARDINGS)
            module += embedded(_OUTPUT_SHARDING, self.output_shardings.as_one())
        counts = scalar(4, self.options.num_replicas) + scalar(5, self.options.num_partitions)
        return embedded(1, module) + embedded(2, embedded(1, program_shape) + counts)

    @cached_property
    def cost(self) -> NamedValues:
        """The cost analysis, by XLA's names: flops, bytes accessed and others."""
        from xloom.pjrt.cost import analysis  # which loads passes

        return NamedValues(analysis(self.executable.module, self.executable.program.memory).items())

    @cached_property
    def output_types(self) -> CArray:
        """PJRT_Buffer_Type of each result."""
        return CArray(ctypes.c_int, [NUMBER[shape.dtype] for shape in self.executable.outputs])

    @cached_property
    def output_dims(self) -> CArray:
        """The dimensions of all results, one after another."""
        return CArray.int64(d for shape in self.executable.outputs for d in shape.dims)

    @cached_property
    def output_ranks(self) -> CArray:
        """How many of them each has."""
        return CArray(ctypes.c_size_t, [shape.rank for shape in self.executable.outputs])

    @cached_property
    def output_layouts(self) -> CArray:
        """The layout's handle of each result."""
        return CArray.pointers(layout_handle(shape) for shape in self.executable.outputs)

    @cached_property
    def parameter_layouts(self) -> CArray:
        """The layout's handle of each parameter."""
        return CArray.pointers(layout_handle(shape) for shape in self.executable.parameters)

    @cached_property
    def parameter_shardings(self) -> Shardings:
        """How the parameters are cut over the partitions."""
        return Shardings([s for p in self.executable.declaration.entry.parameters for s in of_leaves(p)])

    @cached_property
    def output_shardings(self) -> Shardings:
        """The sharding of each result."""
        return Shardings(of_leaves(self.executable.declaration.entry.root))

    @cached_property
    def output_kinds(self) -> tuple[CArray, CArray]:
        """The kinds of memory of the results, and the lengths of their names."""
        return _kinds(self.executable.output_kinds)

    @cached_property
    def parameter_kinds(self) -> tuple[CArray, CArray]:
        """The memory kind of each parameter: addresses of names, and their sizes."""
        return _kinds([KINDS[0]] * len(self.executable.parameters))


def _kinds(kinds: list[str]) -> tuple[CArray, CArray]:
    texts = [_KINDS[kind] for kind in kinds]
    return CArray.pointers(t.address for t in texts), CArray(ctypes.c_size_t, [t.size for t in texts])


class LoadedView:
    """A loaded executable and what C programs see of it."""

    def __init__(self, loaded: LoadedExecutable):
        self.loaded = loaded
        self.plan = LaunchPlan(loaded)
        self.donated = frozenset(loaded.executable.donated)
        self.devices = CArray.pointers(intern_handle(device) for device in loaded.devices)
        partitions = loaded.executable.options.num_partitions
        ids = [number for position in loaded.positions for number in divmod(position, partitions)]
        self.logical_ids = CArray(ctypes.c_int, ids)

    @cached_property
    def fingerprint(self) -> Text:
        """A text that programs on the same devices have in common only if they do the same."""
        return Text(self.loaded.executable.fingerprint)

    @cached_property
    def records(self) -> list[CArray]:
        """The records of the results on each device."""
        shapes, kinds = self.loaded.executable.outputs, self.loaded.executable.output_kinds
        return [
            CArray.pointers(record_address(s, device.memory_space(k)) for s, k in zip(shapes, kinds, strict=True))
            for device in self.loaded.devices
        ]


def executable_handle(executable: Executable) -> int:
    """A handle of an executable."""
    view = ExecutableView(executable)
    return put_at(view.address, view)


def loaded_handle(loaded: LoadedExecutable) -> int:
    """A handle of a loaded executable."""
    view = LoadedView(loaded)
    return put_at(view.plan.address, view)


@entry_point("PJRT_Executable_Destroy")
def destroy(args: Any) -> None:
    """Frees an executable's handle."""
    drop(args.executable)


@entry_point("PJRT_Executable_SizeOfGeneratedCodeInBytes")
def size_of_generated_code(args: Any) -> None:
    """Bytes of machine code: -1, which says that it is not known."""
    args.size_in_bytes = -1


@entry_point("PJRT_Executable_Fingerprint")
def fingerprint(args: Any) -> None:
    """The fingerprint of an executable."""
    text = objects[args.executable].fingerprint
    args.executable_fingerprint, args.executable_fingerprint_size = text.address, text.size


@entry_point("PJRT_LoadedExecutable_Fingerprint")
def loaded_fingerprint(args: Any) -> None:
    """The fingerprint of a loaded executable."""
    text = objects[args.executable].fingerprint
    args.executable_fingerprint, args.executable_fingerprint_size = text.address, text.size


@entry_point("PJRT_Executable_GetCostAnalysis")
def get_cost_analysis(args: Any) -> None:
    """The cost analysis of an executable, by XLA's names."""
    values = objects[args.executable].cost
    args.properties, args.num_properties = values.address, values.size


@entry_point("PJRT_Executable_GetCompiledMemoryStats")
def get_compiled_memory_stats(args: Any) -> None:
    """Bytes of arguments, results, temporaries and aliases that a run needs."""
    memory = objects[args.executable].executable.program.memory
    for name, kind in args._fields_:
        if kind is ctypes.c_int64:
            setattr(args, name, 0)
    args.argument_size_in_bytes = memory.argument_bytes
    args.output_size_in_bytes = memory.result_bytes
    args.alias_size_in_bytes = memory.aliased_bytes
    args.temp_size_in_bytes = memory.temporary_bytes
    args.peak_memory_in_bytes = args.total_size_in_bytes = args.total_allocation_bytes = memory.peak_bytes
    args.generated_code_size_in_bytes = memory.constant_bytes


@entry_point("PJRT_Executable_OutputElementTypes")
def output_element_types(args: Any) -> None:
    """The PJRT_Buffer_Type of each result."""
    row = objects[args.executable].output_types
    args.output_types, args.num_output_types = row.address, row.size


@entry_point("PJRT_Executable_OutputDimensions")
def output_dimensions(args: Any) -> None:
    """The dimensions of each result, one after another, and how many each has."""
    view = objects[args.executable]
    args.num_outputs, args.dims, args.dim_sizes = view.num_outputs, view.output_dims.address, view.output_ranks.address


@entry_point("PJRT_Executable_OutputMemoryKinds")
def output_memory_kinds(args: Any) -> None:
    """The memory kind of each result."""
    view = objects[args.executable]
    kinds, sizes = view.output_kinds
    args.num_outputs, args.memory_kinds, args.memory_kind_sizes = kinds.size, kinds.address, sizes.address


@entry_point("PJRT_Executable_ParameterMemoryKinds")
def parameter_memory_kinds(args: Any) -> None:
    """The memory kind of each parameter."""
    kinds, sizes = objects[args.executable].parameter_kinds
    args.num_parameters, args.memory_kinds, args.memory_kind_sizes = kinds.size, kinds.address, sizes.address


@entry_point("PJRT_Executable_OptimizedProgram")
def optimized_program(args: Any) -> None:
    """The optimised HLO module, serialised; without memory for it, its size."""
    data = objects[args.executable].program
    program = struct("PJRT_Program").from_address(args.program)
    program.format, program.format_size = _FORMAT.address, _FORMAT.size
    if program.code is not None:
        ctypes.memmove(program.code, data, len(data))
    program.code_size = len(data)


@entry_point("PJRT_Executable_Serialize")
def serialize(args: Any) -> None:
    """An executable as bytes, which `deserialize_and_load` reads."""
    return_serialized(args, "serialized_executable", objects[args.executable].executable.serialize())


@entry_point("PJRT_Executable_GetCompileOptions")
def get_compile_options(args: Any) -> None:
    """The options that it was compiled with."""
    return_serialized(args, "serialized_compile_options", objects[args.executable].options.to_proto())


@entry_point("PJRT_Executable_DeserializeAndLoad")
@default_floats()
def deserialize_and_load(args: Any) -> None:
    """A loaded executable from bytes, with the options in them or others."""
    data = bytes_at(args.serialized_executable, args.serialized_executable_size)
    other = bytes_at(args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size)
    options = CompileOptions.from_proto(other) if other else None
    args.loaded_executable = loaded_handle(objects[args.client].client.deserialize(data, options))


@entry_point("PJRT_LoadedExecutable_Destroy")
def loaded_destroy(args: Any) -> None:
    """Frees a loaded executable's handle."""
    drop(args.executable)


@entry_point("PJRT_LoadedExecutable_GetExecutable")
def get_executable(args: Any) -> None:
    """The executable that it is made of."""
    args.executable = executable_handle(objects[args.loaded_executable].loaded.executable)


@entry_point("PJRT_LoadedExecutable_GetDeviceAssignment")
def get_device_assignment(args: Any) -> None:
    """The device of each replica and partition, as a serialised DeviceAssignmentProto."""
    loaded = objects[args.executable].loaded
    return_serialized(args, "serialized_device_assignment", assignment_proto(loaded.device_assignment))


@entry_point("PJRT_LoadedExecutable_AddressableDevices")
def addressable_devices(args: Any) -> None:
    """The devices that a loaded executable runs on."""
    row = objects[args.executable].devices
    args.addressable_devices, args.num_addressable_devices = row.address, row.size


@entry_point("PJRT_LoadedExecutable_AddressableDeviceLogicalIds")
def addressable_device_logical_ids(args: Any) -> None:
    """The replica and the partition of each device."""
    view = objects[args.executable]
    args.addressable_device_logical_ids = view.logical_ids.address
    args.num_addressable_device_logical_ids = view.devices.size


@entry_point("PJRT_LoadedExecutable_Delete")
def delete(args: Any) -> None:
    """Gives up a loaded executable; its handle stays."""
    view = objects[args.executable]
    view.plan.leave_to_python()
    view.loaded.delete()


@entry_point("PJRT_LoadedExecutable_IsDeleted")
def is_deleted(args: Any) -> None:
    """Whether a loaded executable was deleted."""
    args.is_deleted = objects[args.executable].loaded.is_deleted
