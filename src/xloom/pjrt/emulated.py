"""An emulated GPU as a backend: the kernels that the GPU would run, on the processor, with all accesses checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xloom
from xloom.cpu.runtime.dynamic_shapes import DynamicExecutable
from xloom.cuda.emulator.executable import EmulatedExecutable, emulated
from xloom.cuda.prepare import prepared
from xloom.hlo.dynamic_sizes import has_dynamic
from xloom.hlo.module import Module
from xloom.llvm.target import target_named
from xloom.pjrt.compiler import Compiler, Launch


class EmulatedCudaCompiler(Compiler):
    """Compiles for a GPU, such as sm_80; `seed` says in which order threads run."""

    platform_name = "xloom_cuda_emulator"
    platform_version = f"xloom {xloom.__version__}"

    def __init__(self, target: str = "sm_80", seed: int = 0):
        self.target, self._seed = target_named(target), seed
        self.device_kind = self.target.name

    def compile(self, module: Module) -> Emulated:
        """The launches of the module's kernels. Raises LoweringError for what has none."""
        return Emulated(emulated(module, self.target, seed=self._seed))

    def optimized(self, module: Module) -> Module:
        """As it is lowered."""
        return module if has_dynamic(module) else prepared(module)


class Emulated:
    """A program on an emulated GPU."""

    def __init__(self, executable: EmulatedExecutable | DynamicExecutable):
        self.executable = executable
        self.memory = executable.memory

    def run(self, arguments: Sequence[np.ndarray], launch: Launch) -> Any:
        """Runs it. Raises KernelFaultError for what a kernel does wrong."""
        return self.executable(*arguments)

    def rendezvous(self) -> None:
        """Emulated devices have no links between them."""
