"""A program for a GPU, emulated: its steps in order, on memory of the process."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from xloom.calls.program_run import ProgramRun
from xloom.calls.typed_ffi.device import Host
from xloom.codegen.buffer_values import leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cpu.runtime.dynamic_shapes import DynamicExecutable, padded_to_bounds
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.cuda.emulator.launch import POISON, EmulatedKernel
from xloom.cuda.kernel import DeviceKernel
from xloom.cuda.lower import lowered
from xloom.cuda.program import Branch, Call, Copy, CountedLoop, DeviceProgram, Launch, Loop, Step
from xloom.cuda.run_time.custom_calls import perform
from xloom.errors import LoweringError, UnsupportedError
from xloom.hlo.dynamic_sizes import has_dynamic
from xloom.hlo.module import Module
from xloom.interpreter.nested_values import arrays, nested
from xloom.interpreter.values import from_argument, miscounted
from xloom.llvm.target import Target, target_named

_kernels: dict[tuple[DeviceKernel, Target, bool], EmulatedKernel] = {}
"""Those of all programs: equal kernels are made once."""


def emulated(
    module: Module, target: Target | str = "sm_80", *, seed: int = 0
) -> EmulatedExecutable | DynamicExecutable:
    """What runs a module on an emulated GPU. Raises LoweringError for what has no kernels."""
    if not has_dynamic(module):
        return EmulatedExecutable(module, target, seed=seed)
    padded, differs = padded_to_bounds(module)
    executable = emulated(padded, target, seed=seed) if differs else EmulatedExecutable(padded, target, seed=seed)
    return DynamicExecutable(module, executable) if differs else executable


class EmulatedExecutable:
    """A module on an emulated GPU. The order of threads is random; `seed` says which."""

    def __init__(self, module: Module, target: Target | str = "sm_80", *, seed: int = 0, is_optimised: bool = True):
        """Raises LoweringError for what has no kernels."""
        self.module = module
        self.target = target_named(target) if isinstance(target, str) else target
        self.program: DeviceProgram = lowered(module, self.target)
        if module.config.replica_count * module.config.num_partitions > 1:
            hint = "GPUs run it: Client.cuda(); the processor does too"
            raise LoweringError(
                "a program of several devices is none for one emulated GPU", where=module.name, hint=hint
            )
        self._seed, self._is_optimised = seed, is_optimised
        leaves = [leaf for p in module.entry.parameters for leaf in leaf_shapes(p.shape)]
        sizes = (sum(s.nbytes for s in leaves), sum(s.nbytes for s in leaf_shapes(module.entry.root.shape)))
        constants = sum(i.literal.value.nbytes for i in self.program.assignment.constants if i.shape.is_array)
        self.memory = CompiledMemoryStats(*sizes, constants, self.program.arena_bytes)

    def __call__(self, *arguments: Any) -> Any:
        """The results: an array, or a tuple of the same structure as the module's result.

        Raises KernelFaultError for what a kernel does wrong.
        """
        parameters = self.module.entry.parameters
        if len(arguments) != len(parameters):
            raise miscounted(self.module.name, [(p.name, p.shape) for p in parameters], len(arguments))
        values = [from_argument(a, p.shape, p.name) for a, p in zip(arguments, parameters, strict=True)]
        root = self.module.entry.root.shape
        found = self.run([leaf for value in values for leaf in arrays(value)])
        return nested(root, iter(found), token=None)

    def run(self, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The leaves of the result, for those of the arguments."""
        shapes = leaf_shapes(self.module.entry.root.shape)
        memory = _Memory(self.program, arguments, [shape.nbytes for shape in shapes])
        generator = np.random.default_rng(self._seed)
        self._do(self.program.steps, memory, generator)
        return [r.view(s.dtype.numpy).reshape(s.dims) for r, s in zip(memory.results, shapes, strict=True)]

    def _do(self, steps: Sequence[Step], memory: _Memory, generator: np.random.Generator) -> None:
        for step in steps:
            if isinstance(step, Launch):
                arrays = [memory.of(allocation) for allocation in step.arguments]
                self._kernel(step.kernel).launch(step.blocks, arrays, generator, step.makes)
            elif isinstance(step, Copy):
                memory.of(step.target)[...] = memory.of(step.source)
            elif isinstance(step, Loop):
                self._do(step.condition, memory, generator)
                while memory.of(step.predicate)[0]:
                    self._do(step.body, memory, generator)
                    self._do(step.condition, memory, generator)
            elif isinstance(step, CountedLoop):
                for _ in range(step.trips):
                    self._do(step.body, memory, generator)
            elif isinstance(step, Call):
                operands, results = (
                    [0 if each is None else memory.of(each).ctypes.data for each in part]
                    for part in (step.operands, step.results)
                )
                perform(memory.calls, step, operands, results, _IN_MEMORY)
            else:
                assert isinstance(step, Branch)
                self._do(step.branches[_chosen(step, memory)], memory, generator)

    def _kernel(self, kernel: DeviceKernel) -> EmulatedKernel:
        key = kernel, self.target, self._is_optimised
        if key not in _kernels:
            _kernels[key] = EmulatedKernel(kernel, self.target, is_optimised=self._is_optimised)
        return _kernels[key]


def _chosen(branch: Branch, memory: _Memory) -> int:
    chooser = memory.of(branch.chooser)
    if branch.is_predicate:
        return 0 if chooser[0] else 1
    number, last = int(chooser.view(np.int32)[0]), len(branch.branches) - 1
    return number if 0 <= number <= last else last


class _Memory:
    """The bytes of each allocation of one run."""

    def __init__(self, program: DeviceProgram, arguments: Sequence[np.ndarray], result_sizes: Sequence[int]):
        assignment = program.assignment
        self.results = [np.full(size, POISON, np.uint8) for size in result_sizes]
        constants = [c.literal.value for c in assignment.constants]
        self._tables = {
            "argument": [_bytes(a) for a in arguments],
            "result": self.results,
            "constant": [_bytes(leaf) for value in constants for leaf in arrays(value)],
        }
        self._arena = np.full(program.arena_bytes, POISON, np.uint8)
        self.calls = ProgramRun(_IN_MEMORY)
        """Which code of the host does, on the memory of the process."""

    def of(self, allocation: BufferAllocation) -> np.ndarray:
        """The bytes of an allocation."""
        if allocation.kind in self._tables:
            return self._tables[allocation.kind][allocation.number]
        if allocation.kind == "code":
            return np.frombuffer(allocation.data, np.uint8)
        if allocation.kind == "unused":
            return np.zeros(0, np.uint8)
        around = self._arena
        if allocation.colocated_with is not None:
            around = self.of(allocation.colocated_with)
        return around[allocation.offset : allocation.offset + allocation.nbytes]


class _InMemory(Host):
    """A device as typed handlers can ask for it: the host, with a stream that does its work at once."""

    stream = 0  # type: ignore[assignment]

    def read(self, address: int, nbytes: int) -> np.ndarray:
        """See device_view.Memory."""
        return np.frombuffer(ctypes.string_at(address, nbytes), np.uint8)

    @property
    def target(self) -> Target:
        """See device_view.Memory."""
        raise UnsupportedError("the emulator runs no kernels but xloom's own", hint="run the program on a GPU")

    def launch(self, image: bytes, symbol: str, grid: Any, block: Any, shared_bytes: int, arguments: Any) -> None:
        """See device_view.Memory."""
        raise UnsupportedError("the emulator runs no kernels but xloom's own", hint="run the program on a GPU")

    def write(self, address: int, data: np.ndarray) -> None:
        """See device_view.Memory."""
        ctypes.memmove(address, data.ctypes.data, data.nbytes)


_IN_MEMORY = _InMemory()


def _bytes(array: np.ndarray) -> np.ndarray:
    out = np.ascontiguousarray(array).reshape(-1).view(np.uint8)[:]
    out.flags.writeable = False
    return out
