"""What turns a module into something that runs: what a backend has to bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

import xloom
from xloom.cpu.compile import compile as compile_for_cpu
from xloom.cpu.entry.collective_sites import CollectiveSite
from xloom.cpu.runtime.executable import CompiledMemoryStats, Direct, Executable
from xloom.cpu.runtime.rendezvous import Exchange, NativeRendezvous
from xloom.cpu.runtime.sanitized_executable import CallingExecutable
from xloom.cpu.runtime.spmd_executable import BrokenRendezvous, SpmdExecutable, is_spmd
from xloom.errors import EvaluationError, LoweringError, UnsupportedError
from xloom.hlo.instruction import Instruction
from xloom.hlo.lazy_module import declaration_of
from xloom.hlo.module import Module
from xloom.hlo.shape import Shape
from xloom.llvm.target import Target, process_target

if TYPE_CHECKING:
    from xloom.cpu.runtime.checked_executable import CheckedExecutable
    from xloom.cpu.runtime.checked_spmd_executable import CheckedSpmdExecutable
    from xloom.cpu.runtime.dynamic_shapes import DynamicExecutable
    from xloom.sim.tolerance import Tolerance


@dataclass(frozen=True)
class Launch:
    """One run of a program on several devices, as one of them sees it."""

    replica: int = 0
    partition: int = 0
    replicas: int = 1
    partitions: int = 1
    device: int = 0
    """The number of the device."""
    rendezvous: Any = None
    """Of the devices of the run, which the program has made."""
    donated: tuple[int, ...] = ()
    """Donated arguments: the results may take their memory."""


class Program(Protocol):
    """What a backend makes of a module: runs it on one device at a time."""

    memory: CompiledMemoryStats

    def run(self, arguments: Sequence[np.ndarray], launch: Launch) -> Any:
        """The value of the module's entry, for one device.

        The program of a device that takes work and does it later has an attribute `enqueues`, and its arrays a
        `completion`, see `enqueued.Completion`. Where it is true the program runs in the caller's thread.
        """
        ...

    def rendezvous(self) -> Any:
        """A rendezvous of the devices of one run; its `fail(message)` ends their wait. None where each is alone."""
        ...


STATISTICS = (
    "bytes_in_use",
    "peak_bytes_in_use",
    "num_allocs",
    "largest_alloc_size",
    "bytes_limit",
    "bytes_reserved",
    "peak_bytes_reserved",
    "bytes_reservable_limit",
    "largest_free_block_bytes",
    "pool_bytes",
    "peak_pool_bytes",
)
"""What PJRT has names for in a device's memory."""


class Compiler:
    """Compiles modules for a platform: subclass it to make a backend."""

    platform_name = ""
    platform_version = ""
    device_kind = ""

    def compile(self, module: Module) -> Program:
        """A program that runs `module`, which stays as it is."""
        raise NotImplementedError

    def optimized(self, module: Module) -> Module:
        """The module as it is after the passes that `compile` begins with, for who wants to look at it."""
        return module

    def to_device(self, array: np.ndarray, device: int) -> Any:
        """What a device keeps of an array of the host: that array, unless it has memory of its own."""
        return array

    def to_host(self, value: Any, device: int) -> np.ndarray:
        """The array that a device keeps."""
        return value

    def to_pinned(self, array: np.ndarray, device: int) -> np.ndarray:
        """What `pinned_host` keeps of an array of the host, which a device may read by itself; by default the same."""
        return array

    def view(self, pointer: int, shape: Shape, device: int, stream: int | None, keep: Any) -> Any:
        """What a device keeps of memory of its own that others have filled, in a stream of theirs; `keep` has it."""
        message = f"memory of others is none of {self.platform_name}'s devices"
        raise UnsupportedError(message, hint="copy it: device_put")

    def address(self, value: Any) -> int:
        """Where a device keeps an array, for who reads its memory by itself."""
        message = f"the host cannot read the memory of {self.platform_name}'s devices"
        raise UnsupportedError(message, hint="copy it: device_get")

    def moved(self, value: Any, source: int, device: int) -> Any:
        """What a device keeps of what another one does, or the same: a copy. Without this, it goes by the host."""
        return self.to_device(self.to_host(value, source), device)

    def holds(self, value: Any, device: int) -> bool:
        """Whether a device keeps a value, which programs give and are given: False of another device's, say."""
        return True

    def memory_stats(self, device: int) -> Mapping[str, int] | None:
        """Bytes and counts of a device's memory: `bytes_in_use`, and what else of `STATISTICS` is known.

        None where the host's memory is the device's.
        """
        return None

    def computes(self, instruction: Instruction) -> bool:
        """Whether the value of an instruction of `optimized` is the backend's own, so that it is compared."""
        return True

    def tolerance(self, instruction: Instruction) -> Tolerance:
        """How far the value of an instruction of `optimized` may be from the CPU's where these are compared."""
        from xloom.sim.tolerance import usual  # which loads what few ask for

        return usual(instruction)

    def takes(self, instruction: Instruction) -> bool:
        """Whether programs may have an instruction: `compile` gets none with others, all of which an error names."""
        return True


class CpuCompiler(Compiler):
    """Compiles modules to native code for a processor."""

    platform_name = "xloom"
    platform_version = f"xloom {xloom.__version__}"
    device_kind = "cpu"

    def __init__(self, target: Target | None = None, platform_name: str = platform_name):
        """For a target that runs here: by default the host, or what $XLOOM_TARGET names."""
        self.target = target or process_target()
        self.platform_name = platform_name

    def compile(self, module: Module) -> Program:
        """Native code. Raises LoweringError for what has none."""
        executable: Any = compile_for_cpu(module, self.target)
        if not is_spmd(declaration_of(module)):
            return Native(executable, self.target)
        if isinstance(executable, SpmdExecutable):
            return SpmdNative(executable, self.target)
        from xloom.cpu.runtime.checked_spmd_executable import CheckedSpmdExecutable  # which loads passes

        if isinstance(executable, CheckedSpmdExecutable):
            return SpmdNative(executable, self.target)
        raise LoweringError(
            "arrays of dynamic size on several devices have no native code",
            where=module.name,
            hint="run the program on a client of InterpreterCompiler",
        )

    def optimized(self, module: Module) -> Module:
        """As it is planned; one with arrays of dynamic size as it was."""
        from xloom.cpu.prepare import prepared  # which loads the compiler
        from xloom.hlo.dynamic_sizes import has_dynamic

        return module if has_dynamic(module) else prepared(module)


class Native:
    """Native code of one device."""

    def __init__(self, executable: Executable | DynamicExecutable | CheckedExecutable, target: Target):
        self.executable = executable
        """Without PJRT around it."""
        self.target = target
        self.memory = executable.memory

    def run(self, arguments: Sequence[np.ndarray], launch: Launch) -> Any:
        """Runs the native code on arrays of the host."""
        if launch.donated:
            return self.executable(*arguments, donated=launch.donated)
        return self.executable(*arguments)

    @property
    def key(self) -> str | None:
        """What the machine code is kept under, if it is: the same for the same program on the same machine."""
        return self.executable.key

    @property
    def direct(self) -> Direct | None:
        """What runs it without Python, if anything does."""
        executable = self.executable
        is_watched = type(executable) not in (Executable, CallingExecutable)  # by a subclass, which takes Python
        return executable.direct if isinstance(executable, Executable) and not is_watched else None

    def rendezvous(self) -> None:
        """None: programs of one device have no collectives."""


class SpmdNative:
    """Native code of several devices."""

    def __init__(self, executable: SpmdExecutable | CheckedSpmdExecutable, target: Target):
        self._executable = executable
        self.target = target
        self.memory = executable.memory
        self.key = executable.key
        """What the machine code is kept under, if it is."""

    def run(self, arguments: Sequence[np.ndarray], launch: Launch) -> Any:
        """Runs it on one of the devices."""
        rendezvous = launch.rendezvous
        participant = rendezvous.participant(launch.replica, launch.partition)
        with rendezvous.exchange.turn() if rendezvous.exchange is not None else nullcontext():
            try:
                return self._executable(*arguments, participant=participant, donated=launch.donated)
            except BrokenRendezvous as error:
                if rendezvous.exchange is not None:
                    rendezvous.exchange.keep(error.memory)
                    if (failure := rendezvous.exchange.conclude()) is not None:
                        raise failure from None
                raise EvaluationError(f"another device failed: {rendezvous.failure}", where=error.where) from None

    def run_as(self, participant: np.ndarray, arguments: Sequence[np.ndarray]) -> Any:
        """The same as a participant of a run that has begun. Raises BrokenRendezvous if another one will not come."""
        return self._executable(*arguments, participant=participant)

    @property
    def direct(self) -> Direct | None:
        """What runs it without Python, given a participant after its arguments; None if nothing does."""
        return self._executable.direct

    @property
    def collectives(self) -> list[CollectiveSite]:
        """What its devices exchange."""
        return self._executable.collectives

    @property
    def is_independent(self) -> bool:
        """Whether none of its devices waits for another."""
        return isinstance(self._executable, SpmdExecutable) and self._executable.is_independent

    def rendezvous(self, exchange: Exchange | None = None) -> NativeRendezvous:
        """Where the devices of one run exchange the operands of collectives, also with those of other processes."""
        return self._executable.rendezvous(exchange)
