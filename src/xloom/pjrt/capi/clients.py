"""PJRT_Plugin_* and PJRT_Client_*."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from xloom.cuda.names import PJRT_PLATFORM
from xloom.environment import NUM_DEVICES
from xloom.pjrt import recompiles
from xloom.pjrt.capi.ctypes_structs import CArray, NamedValues, Text, bytes_at, named_values_at, struct, text_at
from xloom.pjrt.capi.device_count import device_count
from xloom.pjrt.capi.entry_points import entry_point
from xloom.pjrt.capi.executables import loaded_handle
from xloom.pjrt.capi.float_environment import default_floats
from xloom.pjrt.capi.handles import drop, intern_handle, objects, put
from xloom.pjrt.capi.key_value_callbacks import CallbackStore
from xloom.pjrt.capi.memories import memory_handle
from xloom.pjrt.capi.programs import module_of
from xloom.pjrt.capi.topologies import Topology
from xloom.pjrt.client import Client
from xloom.pjrt.compiler import CpuCompiler
from xloom.pjrt.error import invalid
from xloom.pjrt.options import CompileOptions

_attributes: list[NamedValues] = []


@entry_point("PJRT_Plugin_Initialize")
def initialize(args: Any) -> None:
    """Nothing to do: the plugin is ready when it is loaded."""


@entry_point("PJRT_Plugin_Attributes")
def attributes(args: Any) -> None:
    """The versions of StableHLO that programs may be in."""
    if not _attributes:
        from jaxlib.mlir.dialects import stablehlo

        def version(text: str) -> tuple[int, ...]:
            return tuple(map(int, text.split(".")))

        _attributes.append(
            NamedValues(
                [
                    ("xla_version", 2),
                    ("stablehlo_current_version", version(stablehlo.get_current_version())),
                    ("stablehlo_minimum_version", version(stablehlo.get_minimum_version())),
                ]
            )
        )
    args.attributes, args.num_attributes = _attributes[0].address, _attributes[0].size


class ClientView:
    """A client and what C programs see of it."""

    def __init__(self, client: Client):
        self.client = client
        self.platform_name = Text(client.platform_name)
        self.platform_version = Text(client.platform_version)
        self.devices = CArray.pointers(intern_handle(device) for device in client.devices)
        self.addressable_devices = CArray.pointers(intern_handle(device) for device in client.addressable_devices)
        self.memories = CArray.pointers(memory_handle(m) for m in client.memory_spaces)
        self.topology = Topology(client.compiler, [device.description for device in client.devices])


_GONE = {2: "has disconnected", 4: "has failed"}
"""States of PJRT_ProcessState in which a process takes part in nothing."""

makers: dict[str, Callable[[int], Client]] = {
    PJRT_PLATFORM: lambda count: Client.cuda(count if NUM_DEVICES.text else None),
}
"""What makes the clients of GPUs, and of backends of one's own, by name: functions of the number of devices."""


@entry_point("PJRT_Client_Create")
def create(args: Any) -> None:
    """A client of the backend that the option `backend` names, or of the CPU, as the platform `platform_name`."""
    options = named_values_at(args.create_options, args.num_options)
    count, nodes = device_count(options), options.get("num_nodes", 1)
    platform = options.get("platform_name", CpuCompiler.platform_name)
    if "backend" in options:
        client = makers[options["backend"]](count)
        client.known_as(options["backend"])
    else:
        process_topology = None
        if nodes > 1:
            from xloom.pjrt.join import join  # which loads what one process does not need

            process_topology = join(CallbackStore(args), platform, options["node_id"], nodes, count)
        flushes = bool(options.get("flushes_denormals"))
        client = Client.cpu(count, process_topology, platform, flushes_denormals=flushes)
    args.client = put(ClientView(client))


@entry_point("PJRT_Client_Destroy")
def destroy(args: Any) -> None:
    """Waits for the work of a client's devices and drops its handle."""
    view = drop(args.client)
    if view is not None:
        view.client.close()


@entry_point("PJRT_Client_PlatformName")
def platform_name(args: Any) -> None:
    """What the backend is registered as, or calls itself."""
    text = objects[args.client].platform_name
    args.platform_name, args.platform_name_size = text.address, text.size


@entry_point("PJRT_Client_PlatformVersion")
def platform_version(args: Any) -> None:
    """The version of the backend, as `Compiler.platform_version` says."""
    text = objects[args.client].platform_version
    args.platform_version, args.platform_version_size = text.address, text.size


@entry_point("PJRT_Client_ProcessIndex")
def process_index(args: Any) -> None:
    """The number of the client's process."""
    args.process_index = objects[args.client].client.process_index


@entry_point("PJRT_Client_TopologyDescription")
def topology(args: Any) -> None:
    """The client's devices as a topology description."""
    args.topology = intern_handle(objects[args.client].topology)


@entry_point("PJRT_Client_Devices")
def devices(args: Any) -> None:
    """All devices of the client."""
    row = objects[args.client].devices
    args.devices, args.num_devices = row.address, row.size


@entry_point("PJRT_Client_AddressableDevices")
def addressable_devices(args: Any) -> None:
    """The devices of the client that are in this process."""
    row = objects[args.client].addressable_devices
    args.addressable_devices, args.num_addressable_devices = row.address, row.size


@entry_point("PJRT_Client_LookupDevice")
def lookup_device(args: Any) -> None:
    """The device with an id. Raises PjrtError where there is none."""
    args.device = intern_handle(objects[args.client].client.lookup_device(args.id))


@entry_point("PJRT_Client_LookupAddressableDevice")
def lookup_addressable_device(args: Any) -> None:
    """The device with a local hardware id. Raises PjrtError where there is none."""
    args.addressable_device = intern_handle(
        objects[args.client].client.lookup_addressable_device(args.local_hardware_id)
    )


@entry_point("PJRT_Client_AddressableMemories")
def addressable_memories(args: Any) -> None:
    """The memory spaces of all devices."""
    row = objects[args.client].memories
    args.addressable_memories, args.num_addressable_memories = row.address, row.size


@entry_point("PJRT_Client_DefaultDeviceAssignment")
def default_device_assignment(args: Any) -> None:
    """The first devices, of this process if it has enough, partitions of a replica next to each other."""
    count = args.num_replicas * args.num_partitions
    client = objects[args.client].client
    if count > len(client.devices) or count > args.default_assignment_size:
        raise invalid(
            f"{args.num_replicas} replicas of {args.num_partitions} partitions need {count} devices, "
            f"and there are {len(client.devices)}",
            "start with more devices: XLOOM_NUM_DEVICES, or more processes",
        )
    ids = [device.id for device in client.default_devices(count)]
    (ctypes.c_int * count).from_address(args.default_assignment)[:] = ids


@entry_point("PJRT_Client_UpdateGlobalProcessInfo")
def update_global_process_info(args: Any) -> None:
    """Ends what waits for processes that are gone."""
    client = objects[args.client].client
    kind = struct("PJRT_ProcessInfo")
    for info in (kind * args.num_process_infos).from_address(args.process_infos) if args.num_process_infos else ():
        if info.state in _GONE and info.task_id != client.process_index:
            why = text_at(info.error_message, info.error_message_size)
            client.lose(info.task_id, f"{_GONE[info.state]}{': ' if why else ''}{why}")


@entry_point("PJRT_Client_DmaMap")
def dma_map(args: Any) -> None:
    """Nothing to do: devices use the host's memory."""


@entry_point("PJRT_Client_DmaUnmap")
def dma_unmap(args: Any) -> None:
    """Nothing to do, as `dma_map` did nothing."""


@entry_point("PJRT_Client_Compile")
@default_floats()
def compile_program(args: Any) -> None:
    """A program on the client's devices."""
    options = CompileOptions.from_proto(bytes_at(args.compile_options, args.compile_options_size))
    module = module_of(args.program, options)
    recompiles.note(module)
    args.executable = loaded_handle(objects[args.client].client.compile(module, options))


@entry_point("PJRT_Client_Load")
def load(args: Any) -> None:
    """A compiled program on the client's devices."""
    args.loaded_executable = loaded_handle(objects[args.client].client.load(objects[args.executable].executable))
