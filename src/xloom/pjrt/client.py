"""A platform as a program sees it: its devices, and how to put data and programs on them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from xloom.codegen.thresholds import POOLED
from xloom.cpu.runtime.memory_pool import aligned_copy
from xloom.hlo.dtype import from_numpy
from xloom.hlo.garbage_collection import without_collector
from xloom.hlo.lazy_module import LazyModule, declaration_of
from xloom.hlo.module import Module
from xloom.hlo.shape import Layout, array_shape
from xloom.llvm.target import process_target
from xloom.pjrt.buffer import Buffer, HostBufferSemantics
from xloom.pjrt.compiler import Compiler, CpuCompiler
from xloom.pjrt.device import Device, described
from xloom.pjrt.enqueued import Enqueued
from xloom.pjrt.error import PjrtError, invalid
from xloom.pjrt.executable import Executable, LoadedExecutable
from xloom.pjrt.known_programs import Request
from xloom.pjrt.memory_space import MemorySpace
from xloom.pjrt.options import CompileOptions
from xloom.pjrt.process_topology import ProcessTopology
from xloom.pjrt.transformations import is_transformed
from xloom.status_code import Code
from xloom.trace import span

if TYPE_CHECKING:
    from xloom.pjrt.cross_host import CrossHost
    from xloom.sim import Simulator


class Client:
    """Devices of one platform in this process, and those of others that it works with."""

    def __init__(
        self, compiler: Compiler, devices: int = 1, topology: ProcessTopology | None = None, *, compare: str = ""
    ):
        """With `compare="each"`, each value that the backend computes is held against the CPU's of the same operands.

        A program ends with a DifferenceError where one is farther from that than `Compiler.tolerance` says.
        """
        if devices < 1:
            raise invalid(
                f"a client has at least one device, not {devices}", "ask for 1 or more: Client.cpu(devices=1)"
            )
        if compare not in ("", "each"):
            raise invalid(
                f'compare is "each", or not given; not {compare!r}', "each compares every value with the CPU's"
            )
        self.compiler = compiler
        self.platform_name = compiler.platform_name
        """What the backend calls itself, or is known as."""
        self.compare = compare
        self.process_topology = topology or ProcessTopology(0, (devices,))
        self.devices = [Device(self, each) for each in described(compiler, self.process_topology.device_counts)]
        """Those of all processes."""
        self._by_id = {device.id: device for device in self.devices}
        self.addressable_devices = [device for device in self.devices if device.is_addressable]
        """Those of this process."""
        self.launching = threading.Lock()
        """Held while a program is given to several devices."""
        self._cross_host = None if self.process_topology.connected is None else _cross_host(self.process_topology)

    @staticmethod
    def cpu(
        devices: int = 1,
        topology: ProcessTopology | None = None,
        platform_name: str = CpuCompiler.platform_name,
        *,
        flushes_denormals: bool = False,
    ) -> Client:
        """Native code on the host, which may be one of several processes.

        With `flushes_denormals`, programs take denormal floats for 0, as those of jaxlib's CPU do.
        """
        target = replace(process_target(), flushes_denormals=flushes_denormals)
        return Client(CpuCompiler(target, platform_name), devices, topology)

    @staticmethod
    def interpreter(devices: int = 1) -> Client:
        """A client whose devices evaluate programs with NumPy."""
        from xloom.pjrt.interpreted import InterpreterCompiler

        return Client(InterpreterCompiler(), devices)

    @staticmethod
    def sim(make: Callable[[], Simulator] | None = None, devices: int = 1, *, compare: str = "") -> Client:
        """Simulated accelerators, each of which `make` makes: a subclass of `xloom.sim.Simulator`, or that itself."""
        from xloom.pjrt.simulated import SimCompiler
        from xloom.sim import Simulator

        return Client(SimCompiler(make or Simulator, devices), devices, compare=compare)

    @staticmethod
    def cuda_emulator(target: str = "sm_80", devices: int = 1, *, seed: int = 0) -> Client:
        """Emulated NVIDIA GPUs: the kernels made for `target`, their threads in an order of `seed`, checked."""
        from xloom.pjrt.emulated import EmulatedCudaCompiler

        return Client(EmulatedCudaCompiler(target, seed), devices)

    @staticmethod
    def cuda(devices: int | None = None) -> Client:
        """NVIDIA's GPUs of this machine, by default all. Raises UnsupportedError where there are none, or fewer.

        The error says what was looked for: the driver, the devices, what they can do.
        """
        from xloom.pjrt.cuda import CudaCompiler, gpus

        compiler = CudaCompiler(gpus(devices))
        return Client(compiler, len(compiler.gpus))

    def known_as(self, platform_name: str) -> None:
        """Gives the platform the name that others have for it: the one under which it is registered."""
        self.platform_name = platform_name
        for device in self.devices:
            device.description = replace(device.description, platform=platform_name)

    @property
    def platform_version(self) -> str:
        """The version of the backend, as `Compiler.platform_version` says."""
        return self.compiler.platform_version

    @property
    def process_index(self) -> int:
        """Which of several processes it is."""
        return self.process_topology.process_index

    @property
    def cross_host(self) -> CrossHost:
        """Transfers to and from devices of other processes. Raises MissingExtraError where there can be none."""
        return self._cross_host or _cross_host(self.process_topology)

    def lose(self, process: int, why: str) -> None:
        """Ends what waits for a process that is gone."""
        if self._cross_host is not None:
            self._cross_host.lose(process, why)
            self.process_topology.processes.lose(process, why)

    @property
    def memory_spaces(self) -> list[MemorySpace]:
        """The memory spaces of all devices of this process."""
        return [memory for device in self.addressable_devices for memory in device.memory_spaces]

    def lookup_device(self, number: int) -> Device:
        """The device with that id."""
        if number not in self._by_id:
            raise PjrtError(
                Code.INVALID_ARGUMENT,
                f"No device with id {number}: there are {len(self.devices)}, from 0 on",
                hint="Client.cpu(devices=8), or XLOOM_NUM_DEVICES=8 for JAX's platform, makes more",
            )
        return self._by_id[number]

    def lookup_addressable_device(self, number: int) -> Device:
        """The device of this process with that number."""
        if not 0 <= number < len(self.addressable_devices):
            raise invalid(
                f"No device with local hardware id {number}: there are {len(self.addressable_devices)}",
                "they are numbered from 0, in each process",
            )
        return self.addressable_devices[number]

    def default_devices(self, count: int) -> list[Device]:
        """Those that so many replicas and partitions are put on unless told: of this process, if it has enough."""
        found = self.addressable_devices if count <= len(self.addressable_devices) else self.devices
        if count > len(found):
            raise invalid(
                f"{count} devices are wanted, and there are {len(found)}",
                "make the client with more, by Client.cpu(devices=...) or XLOOM_NUM_DEVICES",
            )
        return found[:count]

    def buffer_from_host(
        self,
        array: Any,
        memory: Device | MemorySpace | None = None,
        semantics: HostBufferSemantics = HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL,
        layout: Layout | None = None,
    ) -> Buffer:
        """A buffer with the contents of an array, row-major unless told otherwise.

        Zero-copy semantics allow that it is the array itself."""
        space = self.addressable_devices[0].default_memory if memory is None else memory
        if isinstance(space, Device):
            space = space.default_memory
        array = np.asarray(array)
        native = array.dtype.newbyteorder("=")
        shape = array_shape(from_numpy(native), array.shape, layout=layout)
        if shape.is_permuted:
            array = array.transpose(shape.major_to_minor)
        fits = array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative
        copies = semantics < HostBufferSemantics.IMMUTABLE_ZERO_COPY or not fits
        with span("host to device", "transfer", bytes=array.nbytes) if copies or not space.is_host else nullcontext():
            if copies:
                # aligned if that matters: a program that is given the memory may leave its result there
                large = array.nbytes >= POOLED
                array = aligned_copy(array, native) if large else np.array(array, native, order="C")
            return Buffer(shape, space, Enqueued.of(space.put(array)))

    def compile(self, module: Module, options: CompileOptions | None = None) -> LoadedExecutable:
        """The module on the devices that `options` name; by default as many as the module is for."""
        config = declaration_of(module).config
        if options is None:
            options = CompileOptions(config.replica_count, config.num_partitions)
        count = options.num_replicas * options.num_partitions
        if self.process_index and not options.device_assignment:
            ids = [device.id for device in self.default_devices(count)]
            n = options.num_partitions
            rows = tuple(tuple(ids[k : k + n]) for k in range(0, count, n))
            options = replace(options, device_assignment=rows)
        if count > len(self.devices):
            raise invalid(
                f"the program is for {count} devices, and there are {len(self.devices)}",
                "make the client with more, by Client.cpu(devices=...) or XLOOM_NUM_DEVICES",
            )
        is_plain = type(self.compiler) is CpuCompiler and not (self.compare or is_transformed(self.platform_name))
        request = Request.of(module, options) if is_plain else None
        if request is not None and (known := request.known) is not None:
            if known.declaration is not None:
                known.declaration.config.replica_count = options.num_replicas  # which are no part of its bytes
                known.declaration.config.num_partitions = options.num_partitions
                original = module
                module = LazyModule(
                    request.changed, known.declaration, lambda: _compilation().changed(original, options)
                )
            return self.load(Executable(module, options, self.compiler.compile(module), known))
        return self.load(_compilation().compiled(self, module, options, request))

    def load(self, executable: Executable) -> LoadedExecutable:
        """The executable on this client's devices."""
        return LoadedExecutable(self, executable)

    def deserialize(self, data: bytes, options: CompileOptions | None = None) -> LoadedExecutable:
        """What `Executable.serialize` has packed; `options` go before those packed with it."""
        module, packed = Executable.parts(data)
        options = options or CompileOptions.from_proto(packed)
        # which are no part of a module's bytes
        module.config.replica_count, module.config.num_partitions = options.num_replicas, options.num_partitions
        return self.load(_compilation().with_program(self, module, options))

    def close(self) -> None:
        """Waits for all work of all devices."""
        for device in self.addressable_devices:
            device.queue.close()


def _compilation() -> Any:
    """What compiles, loaded with the first program that was not compiled before."""
    with without_collector():  # all that is made stays
        from xloom.pjrt import compilation

    return compilation


def _cross_host(topology: ProcessTopology) -> CrossHost:
    from xloom.pjrt.cross_host import CrossHost  # which loads what one process does not need

    return CrossHost(topology)
