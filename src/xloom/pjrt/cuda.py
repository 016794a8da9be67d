"""NVIDIA's GPUs as a backend: arrays in their memory, programs that they are given and do by and by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

import xloom
from xloom.codegen.buffer_values import leaf_shapes
from xloom.cpu.runtime.dynamic_shapes import DynamicExecutable, padded_to_bounds
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.cuda.driver.libcuda import libcuda
from xloom.cuda.driver.results import DriverError
from xloom.cuda.names import PJRT_PLATFORM
from xloom.cuda.prepare import prepared
from xloom.cuda.run_time import transfers
from xloom.cuda.run_time.arrays import CudaArray
from xloom.cuda.run_time.collectives import Place
from xloom.cuda.run_time.device import CudaDevice, devices_of
from xloom.cuda.run_time.executable import CudaExecutable
from xloom.cuda.run_time.images import image_of
from xloom.cuda.run_time.meeting import Meeting
from xloom.cuda.run_time.memory import Lent
from xloom.errors import UnsupportedError
from xloom.hlo.dynamic_sizes import has_dynamic
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.interpreter.nested_values import arrays, nested, with_each
from xloom.pjrt.compiler import Compiler, Launch, Program
from xloom.pjrt.error import as_pjrt


def gpus(count: int | None = None) -> list[CudaDevice]:
    """The first GPUs of this machine, by default all. Raises UnsupportedError where there are fewer."""
    return devices_of(libcuda(), image_of, count)


class CudaCompiler(Compiler):
    """Compiles for GPUs of one kind."""

    platform_name = PJRT_PLATFORM
    platform_version = f"xloom {xloom.__version__}"

    def __init__(self, gpus: Sequence[CudaDevice]):
        """Raises UnsupportedError for GPUs of several kinds."""
        kinds = sorted({gpu.target.name for gpu in gpus})
        if len(kinds) > 1:
            raise UnsupportedError(
                f"the GPUs are of several kinds: {', '.join(kinds)}",
                hint="choose those of one kind with CUDA_VISIBLE_DEVICES",
            )
        self.gpus = list(gpus)
        self.target, self.device_kind = gpus[0].target, gpus[0].name

    def compile(self, module: Module) -> Program:
        """The module as work for a GPU. Raises LoweringError for what has no kernels."""
        padded, differs = padded_to_bounds(module) if has_dynamic(module) else (module, False)
        program = CudaProgram(self.gpus, padded, CudaExecutable(padded, self.target))
        return PaddedProgram(module, program) if differs else program

    def optimized(self, module: Module) -> Module:
        """As it is lowered."""
        return module if has_dynamic(module) else prepared(module)

    def to_device(self, array: np.ndarray, device: int) -> CudaArray:
        """A copy in a GPU's memory, which comes later. Raises OutOfMemoryError when it is full."""
        return _told(transfers.to_device, array, self.gpus[device])

    def to_host(self, value: CudaArray, device: int) -> np.ndarray:
        """A copy of what is in a GPU's memory, once it is there."""
        return _told(transfers.to_host, value)

    def to_pinned(self, array: np.ndarray, device: int) -> np.ndarray:
        """A copy in memory that the GPUs read by themselves."""
        with self.gpus[device] as gpu:
            return gpu.pinned.copied(array)

    def view(self, pointer: int, shape: Shape, device: int, stream: int | None, keep: Any) -> CudaArray:
        """An array of others in a GPU's memory, once their stream is so far; `keep` lives as long as it is used."""
        dims, dtype = shape.in_memory().dims, shape.dtype.numpy
        with self.gpus[device] as gpu:
            done = _told(gpu.record, stream, "an array of others") if stream else None
            return CudaArray(gpu, Lent(pointer, shape.nbytes, keep), dims, dtype, done)

    def address(self, value: CudaArray) -> int:
        """The address on the GPU."""
        return value.pointer

    def moved(self, value: CudaArray, source: int, device: int) -> CudaArray:
        """A copy from GPU to GPU."""
        return _told(transfers.copied, value, self.gpus[device])

    def holds(self, value: Any, device: int) -> bool:
        """Whether an array is in a GPU's memory."""
        return isinstance(value, CudaArray) and value.device is self.gpus[device]

    def memory_stats(self, device: int) -> Mapping[str, int]:
        """Bytes and counts of a GPU's memory."""
        with self.gpus[device] as gpu:
            return gpu.memory.statistics()


class CudaProgram:
    """A program on GPUs."""

    def __init__(self, gpus: Sequence[CudaDevice], module: Module, executable: CudaExecutable):
        self.gpus, self.executable = gpus, executable
        self.result_shape = module.entry.root.shape
        self._counts = [len(leaf_shapes(p.shape)) for p in module.entry.parameters]
        leaves = [leaf for p in module.entry.parameters for leaf in leaf_shapes(p.shape)]
        sizes = sum(s.nbytes for s in leaves), sum(s.nbytes for s in executable.results)
        self.memory = CompiledMemoryStats(*sizes, len(executable.tape.constants), executable.program.arena_bytes)

    @property
    def enqueues(self) -> bool:
        """True unless the host reads what its loops and branches depend on."""
        return not self.executable.decides

    def run(self, arguments: Sequence[Any], launch: Launch) -> Any:
        """Gives a GPU its work. Raises PjrtError for what it refuses, or what went wrong before."""
        leaves = [leaf for argument in arguments for leaf in arrays(argument)]
        donated = frozenset(n for k in launch.donated for n in self._leaf_numbers(k))
        place = Place(launch.replica, launch.partition, launch.partitions, launch.rendezvous)
        found = iter(_told(self.executable.run, self.gpus[launch.device], leaves, donated, place))
        return nested(self.result_shape, found, token=None)

    def rendezvous(self) -> Meeting:
        """Where the threads of one run's devices meet."""
        return Meeting()

    def _leaf_numbers(self, argument: int) -> range:
        first = sum(self._counts[:argument])
        return range(first, first + self._counts[argument])


class PaddedProgram:
    """A program with arrays of dynamic size: the host pads its arguments, and cuts its results."""

    enqueues = False  # it waits for the sizes of its results, which are copied to the device later

    def __init__(self, module: Module, program: CudaProgram):
        self._module, self._program = module, program
        self.memory = program.memory

    def run(self, arguments: Sequence[Any], launch: Launch) -> Any:
        """Runs it and waits for its results, whose sizes the host asks for."""
        gpu = self._program.gpus[launch.device]
        on_host = [_told(transfers.to_host, argument) for argument in arguments]
        found = DynamicExecutable(self._module, FromHost(self._program, gpu, launch))(*on_host)
        return with_each(found, lambda array: _told(transfers.to_device, np.asarray(array, order="C"), gpu))

    def rendezvous(self) -> None:
        """None: programs of one device have no collectives."""


class FromHost:
    """A program on a GPU, as a function of the host's arrays."""

    def __init__(self, program: Program, gpu: CudaDevice, launch: Launch):
        self._program, self._gpu, self._launch = program, gpu, launch
        self.memory = program.memory

    def __call__(self, *arguments: Any) -> Any:
        """The results, on the host. Raises PjrtError for what went wrong."""
        found = self.enqueued([self.to_device(a) for a in arguments])
        return with_each(found, partial(_told, transfers.to_host))

    def to_device(self, argument: Any) -> Any:
        """An argument on the GPU."""
        return with_each(argument, lambda a: _told(transfers.to_device, np.asarray(a, order="C"), self._gpu))

    def enqueued(self, arguments: Sequence[Any]) -> Any:
        """The results for arguments on the GPU, which makes them by and by."""
        return self._program.run(arguments, self._launch)


def _told(work: Any, *arguments: Any) -> Any:
    """What `work` gives; what the driver says goes on as PJRT says it."""
    try:
        return work(*arguments)
    except DriverError as error:
        raise as_pjrt(error) from None
