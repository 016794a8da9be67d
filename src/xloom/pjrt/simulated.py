"""Simulated accelerators as a backend: data is in their memory, and programs run there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

import xloom
from xloom.codegen.buffer_values import leaf_shapes
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.hlo.module import Module
from xloom.pjrt.compiler import Compiler, Launch
from xloom.sim import DeviceArray, Simulator, Stream


class SimCompiler(Compiler):
    """Compiles for `devices` simulators, which `make` makes: a subclass of `Simulator`, say."""

    platform_version = f"xloom {xloom.__version__}"

    def __init__(self, make: Callable[[], Simulator], devices: int):
        self.simulators = [make() for _ in range(devices)]
        self.platform_name = self.device_kind = self.simulators[0].platform

    def compile(self, module: Module) -> Simulated:
        """The module in the form that the device takes. Raises UnsupportedError for what it has not."""
        return Simulated(self.simulators, module)

    def to_device(self, array: np.ndarray, device: int) -> DeviceArray:
        """A copy in a device's memory. Raises DeviceMemoryError when it is full."""
        return self.simulators[device].to_device(array, Stream()).result()

    def to_host(self, value: DeviceArray, device: int) -> np.ndarray:
        """A copy of what is in a device's memory."""
        held: Future[Any] = Future()
        held.set_result(value)
        return np.asarray(self.simulators[device].to_host(held, Stream()).result())


class Simulated:
    """A program on simulated devices."""

    def __init__(self, simulators: Sequence[Simulator], module: Module):
        self._simulators = simulators
        self._program = simulators[0].prepare(module)
        simulators[0].check(self._program)
        leaves = [leaf for p in module.entry.parameters for leaf in leaf_shapes(p.shape)]
        results = leaf_shapes(module.entry.root.shape)
        self.memory = CompiledMemoryStats(sum(s.nbytes for s in leaves), sum(s.nbytes for s in results), 0, 0)

    def run(self, arguments: Sequence[DeviceArray], launch: Launch) -> Any:
        """Runs it on the device of `launch`; arguments and results are in its memory."""
        simulator, operands = self._simulators[launch.device], []
        for argument in arguments:
            held: Future[Any] = Future()
            held.set_result(argument)
            operands.append(held)
        return simulator.execute(self._program, operands, Stream()).result()

    def rendezvous(self) -> None:
        """Simulators have no links between them."""
