"""Collectives among the GPUs of a process: each copies what it wants from the others' memory, in its own stream.

No GPU writes over an operand before all that read it have done so: each waits for the others' events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xloom.cpu.entry.collectives import rows_of
from xloom.cuda.program import Collective
from xloom.cuda.run_time.device import CudaDevice
from xloom.cuda.run_time.events import Completion
from xloom.cuda.run_time.meeting import Meeting


@dataclass
class Place:
    """Which of a program's devices a run is on, and where it meets the others."""

    replica: int = 0
    partition: int = 0
    partitions: int = 1
    meeting: Meeting | None = None
    visits: Counter[Collective] = field(default_factory=Counter)
    """How often each collective was come to."""

    @property
    def number(self) -> int:
        """Among all devices, by replica, then partition."""
        return self.replica * self.partitions + self.partition


@dataclass(frozen=True)
class _Ready:
    """What a device tells the others: where its operands are, and when."""

    device: CudaDevice
    operands: Sequence[int]
    completion: Completion


def exchange(
    device: CudaDevice, place: Place, step: Collective, operands: Sequence[int], results: Sequence[int]
) -> None:
    """Gives a device its part of a collective of arrays at these addresses. The device is the thread's.

    Raises EvaluationError when another device failed.
    """
    assert place.meeting is not None
    row = rows_of(step.instruction)[place.number]
    place.visits[step] += 1
    visit = id(step), place.visits[step], row.group
    ready = _Ready(device, operands, device.record(device.compute, step.makes))
    others = place.meeting.meet((*visit, "ready"), row.members, place.number, ready)
    for target, source, member, nbytes in _blocks(step, row.rank, row.members, row.source, results, others):
        _copy(device, others[member], target, source, nbytes)
    for target, allocation in zip(results, step.results, strict=True):
        if allocation.nbytes and row.source < 0 and step.is_from_one:  # of devices that no other one sends to
            device.driver.call("cuMemsetD8Async", target, 0, allocation.nbytes, device.compute)
    done = device.record(device.compute, step.makes)
    for other in place.meeting.meet((*visit, "done"), row.members, place.number, done).values():
        device.follow(device.compute, other)


def _copy(device: CudaDevice, other: _Ready, target: int, source: int, nbytes: int) -> None:
    if not nbytes:
        return
    device.follow(device.compute, other.completion)
    if other.device is device:
        device.driver.call("cuMemcpyDtoDAsync_v2", target, source, nbytes, device.compute)
        return
    given = target, device.context, source, other.device.context, nbytes, device.compute
    device.driver.call("cuMemcpyPeerAsync", *given)


def _blocks(
    step: Collective,
    rank: int,
    members: Sequence[int],
    source: int,
    results: Sequence[int],
    others: dict[int, _Ready],
) -> Iterator[tuple[int, int, int, int]]:
    """What a device copies: to where, from where, of which member, how much."""
    sizes = [allocation.nbytes for allocation in step.operands]
    if step.is_from_one:
        if source >= 0:
            pairs = zip(results, others[source].operands, sizes, strict=True)
            yield from ((target, given, source, nbytes) for target, given, nbytes in pairs)
        return
    for k, member in enumerate(members):
        given = others[member].operands
        if step.instruction.opcode == "all-gather":
            for target, operand, nbytes in zip(results, given, sizes, strict=True):
                yield target + k * nbytes, operand, member, nbytes
        elif len(results) == 1:
            block = sizes[0] // len(members)
            yield results[0] + k * block, given[0] + rank * block, member, block
        else:
            yield results[k], given[rank], member, sizes[rank]
