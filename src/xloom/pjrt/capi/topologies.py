"""PJRT_TopologyDescription_*: devices that need not be present, and compiling for them."""

from __future__ import annotations

import ctypes
import json
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from xloom.pjrt.capi.ctypes_structs import CArray, NamedValues, Text, bytes_at, named_values_at
from xloom.pjrt.capi.device_count import device_count
from xloom.pjrt.capi.entry_points import entry_point
from xloom.pjrt.capi.executables import executable_handle
from xloom.pjrt.capi.float_environment import default_floats
from xloom.pjrt.capi.handles import drop, intern_handle, objects, put
from xloom.pjrt.capi.programs import module_of
from xloom.pjrt.capi.serialized_bytes import return_serialized
from xloom.pjrt.compiler import Compiler, CpuCompiler
from xloom.pjrt.device import DeviceDescription, described
from xloom.pjrt.executable import Executable
from xloom.pjrt.memory_space import KINDS
from xloom.pjrt.options import CompileOptions


class Topology:
    """The devices of a platform, without a client."""

    def __init__(self, compiler: Compiler, descriptions: Sequence[DeviceDescription]):
        self.compiler = compiler
        self.descriptions = list(descriptions)
        self.platform_name = Text(self.descriptions[0].platform)
        self.platform_version = Text(compiler.platform_version)
        self.handles = CArray.pointers(intern_handle(d) for d in self.descriptions)
        self.attributes = NamedValues([])
        self.kind_ids = CArray(ctypes.c_int, range(len(KINDS)))

    def serialize(self) -> bytes:
        """What `deserialize` makes it from, and keys of caches depend on."""
        processes = Counter(description.process_index for description in self.descriptions)
        counts = [processes[k] for k in range(1 + max(processes))]
        return json.dumps([self.descriptions[0].platform, self.compiler.platform_version, counts]).encode()


def _of_cpu(counts: Sequence[int]) -> Topology:
    """As many devices as each process has."""
    compiler = CpuCompiler()
    return Topology(compiler, described(compiler, counts))


@entry_point("PJRT_TopologyDescription_Create")
def create(args: Any) -> None:
    """A topology of as many CPU devices as the options say."""
    args.topology = put(_of_cpu([device_count(named_values_at(args.create_options, args.num_options))]))


@entry_point("PJRT_TopologyDescription_Destroy")
def destroy(args: Any) -> None:
    """Frees a topology's handle."""
    drop(args.topology)


@entry_point("PJRT_TopologyDescription_PlatformName")
def platform_name(args: Any) -> None:
    """What the backend is registered as, or calls itself."""
    text = objects[args.topology].platform_name
    args.platform_name, args.platform_name_size = text.address, text.size


@entry_point("PJRT_TopologyDescription_PlatformVersion")
def platform_version(args: Any) -> None:
    """The version of the backend, as `Compiler.platform_version` says."""
    text = objects[args.topology].platform_version
    args.platform_version, args.platform_version_size = text.address, text.size


@entry_point("PJRT_TopologyDescription_GetDeviceDescriptions")
def get_device_descriptions(args: Any) -> None:
    """The descriptions of a topology's devices."""
    row = objects[args.topology].handles
    args.descriptions, args.num_descriptions = row.address, row.size


@entry_point("PJRT_TopologyDescription_Attributes")
def attributes(args: Any) -> None:
    """The attributes of a topology: there are none."""
    values = objects[args.topology].attributes
    args.attributes, args.num_attributes = values.address, values.size


@entry_point("PJRT_TopologyDescription_Serialize")
def serialize(args: Any) -> None:
    """A topology as bytes, which `deserialize` reads."""
    return_serialized(args, "serialized_topology", objects[args.topology].serialize())


@entry_point("PJRT_TopologyDescription_Deserialize")
def deserialize(args: Any) -> None:
    """A topology from the bytes of `serialize`."""
    _, _, counts = json.loads(bytes_at(args.serialized_topology, args.serialized_topology_size))
    args.topology = put(_of_cpu(counts))


@entry_point("PJRT_TopologyDescription_Fingerprint")
def fingerprint(args: Any) -> None:
    """A number that equal topologies have in common."""
    args.fingerprint = zlib.crc32(objects[args.topology].serialize())


@entry_point("PJRT_TopologyDescription_GetMemorySpaceKindIds")
def get_memory_space_kind_ids(args: Any) -> None:
    """The numbers of the kinds of memory."""
    row = objects[args.topology].kind_ids
    args.memory_space_kind_ids, args.num_memory_space_kind_ids = row.address, row.size


@entry_point("PJRT_Compile")
@default_floats()
def compile_program(args: Any) -> None:
    """A program that is not on devices yet."""
    options = CompileOptions.from_proto(bytes_at(args.compile_options, args.compile_options_size))
    module = module_of(args.program, options)
    program = objects[args.topology].compiler.compile(module)
    args.executable = executable_handle(Executable(module, options, program))
