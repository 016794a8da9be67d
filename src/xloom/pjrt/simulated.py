"""Simulated accelerators as a backend: data is in their memory, and programs run there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import xloom
from xloom.codegen.buffer_values import leaf_shapes
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.pjrt.compiler import Compiler, Launch
from xloom.sim import DeviceArray, Simulator
from xloom.sim.device_values import on_device
from xloom.sim.tolerance import Tolerance


class SimCompiler(Compiler):
    """Compiles for `devices` simulators, which `make` makes: a subclass of `Simulator`, say."""

    platform_version = f"xloom {xloom.__version__}"

    def __init__(self, make: Callable[[], Simulator], devices: int):
        self.simulators = [make() for _ in range(devices)]
        self.platform_name = self.device_kind = self.simulators[0].platform

    def compile(self, module: Module) -> Simulated:
        """The module in the form that the device takes. Raises UnsupportedError for what it has not."""
        return Simulated(self.simulators, module)

    def optimized(self, module: Module) -> Module:
        """As the device takes it."""
        return self.simulators[0].prepare(module)

    def computes(self, instruction: Instruction) -> bool:
        """As the device says."""
        return self.simulators[0].is_own(instruction)

    def tolerance(self, instruction: Instruction) -> Tolerance:
        """As the device says."""
        return self.simulators[0].tolerance(instruction)

    def to_device(self, array: np.ndarray, device: int) -> DeviceArray:
        """A copy in a device's memory. Raises DeviceMemoryError when it is full."""
        return self.simulators[device].copy_in(array)

    def to_host(self, value: DeviceArray, device: int) -> np.ndarray:
        """A copy of what is in a device's memory."""
        return self.simulators[device].copy_out(value)

    def holds(self, value: Any, device: int) -> bool:
        """Whether an array is in a device's memory."""
        return isinstance(value, DeviceArray) and self.simulators[device].memory.holds(on_device(value))

    def memory_stats(self, device: int) -> Mapping[str, int]:
        """Bytes and counts of a device's memory."""
        return self.simulators[device].memory.statistics()


class Simulated:
    """A program on simulated devices."""

    def __init__(self, simulators: Sequence[Simulator], module: Module):
        self._simulators = simulators
        self._program = simulators[0].prepare(module)
        simulators[0].check(self._program)
        simulators[0].planned(self._program)
        leaves = [leaf for p in module.entry.parameters for leaf in leaf_shapes(p.shape)]
        results = leaf_shapes(module.entry.root.shape)
        self.memory = CompiledMemoryStats(sum(s.nbytes for s in leaves), sum(s.nbytes for s in results), 0, 0)

    def run(self, arguments: Sequence[DeviceArray], launch: Launch) -> Any:
        """Runs it on the device of `launch`; arguments and results are in its memory."""
        return self._simulators[launch.device].call(self._program, arguments)

    def rendezvous(self) -> None:
        """Simulators have no links between them."""
