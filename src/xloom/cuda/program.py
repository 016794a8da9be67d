"""A program for a GPU: kernels, and the steps that the host asks for in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xloom.calls.registry import HOST, Registration
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.cuda.kernel import DeviceKernel
from xloom.hlo.instruction import Instruction


@dataclass(frozen=True)
class Launch:
    """A kernel on a grid of blocks."""

    kernel: DeviceKernel
    blocks: int
    arguments: tuple[BufferAllocation, ...]
    """Whose addresses are the kernel's pointers, each once."""
    makes: str
    """The instructions that it is for, and where they come from."""
    flops: int = 0
    """Arithmetic of those instructions; of the first launch alone, where they have several."""
    computes_in: str = "f32"
    """The type of most of it: f32 or f64."""


@dataclass(frozen=True)
class Copy:
    """Copies the whole of an array from device memory to device memory."""

    target: BufferAllocation
    source: BufferAllocation


@dataclass(frozen=True)
class Loop:
    """Does `condition`, and while `predicate` then is true, `body` and again."""

    condition: Sequence[Step]
    predicate: BufferAllocation
    body: Sequence[Step]


@dataclass(frozen=True)
class CountedLoop:
    """Does `body` so many times."""

    trips: int
    body: Sequence[Step]


@dataclass(frozen=True)
class Branch:
    """Does one of several: the first where a predicate holds, or the one that an s32 numbers, else the last."""

    chooser: BufferAllocation
    is_predicate: bool
    branches: Sequence[Sequence[Step]]


@dataclass(frozen=True)
class Call:
    """Calls code outside the program, which gives the stream its work: with each array and token, tuples flattened."""

    instruction: Instruction
    registration: Registration
    operands: tuple[BufferAllocation | None, ...]
    """Where each lies as the call wants it; None for tokens."""
    results: tuple[BufferAllocation | None, ...]

    @property
    def is_by_host(self) -> bool:
        """Whether it is a routine of the host's, which gets copies of the arrays."""
        return self.registration.platform == HOST


@dataclass(frozen=True, eq=False)
class Collective:
    """Moves arrays between the devices of a program, cut and put together along their first dimension."""

    instruction: Instruction
    operands: tuple[BufferAllocation, ...]
    results: tuple[BufferAllocation, ...]
    makes: str
    """The instruction, and where it comes from."""

    @property
    def is_from_one(self) -> bool:
        """Whether a device gets all from one, or nothing."""
        return self.instruction.opcode in ("collective-broadcast", "collective-permute")


Step = Launch | Copy | Loop | CountedLoop | Branch | Call | Collective


@dataclass
class DeviceProgram:
    """All that runs a program, given the addresses of its arguments, results, constants and arena."""

    assignment: BufferAssignment
    steps: Sequence[Step]
    arena_bytes: int

    @property
    def launches(self) -> Iterator[Launch]:
        """All launches, those of loops and branches once, in the order of the program."""
        stack = list(reversed(self.steps))
        while stack:
            step = stack.pop()
            if isinstance(step, Launch):
                yield step
            elif isinstance(step, Loop):
                stack.extend(reversed([*step.condition, *step.body]))
            elif isinstance(step, CountedLoop):
                stack.extend(reversed(step.body))
            elif isinstance(step, Branch):
                stack.extend(s for branch in reversed(step.branches) for s in reversed(branch))

    @property
    def kernels(self) -> dict[DeviceKernel, list[Launch]]:
        """Each kernel, and its launches."""
        found: dict[DeviceKernel, list[Launch]] = {}
        for launch in self.launches:
            found.setdefault(launch.kernel, []).append(launch)
        return found
