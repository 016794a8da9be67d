"""One run of a program among several processes, and what went wrong in it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np

from xloom.cpu.entry.collective_sites import CollectiveSite
from xloom.distributed.communicator import Communicator, addresses, error_text
from xloom.distributed.exchange_ir import COMMUNICATOR, exchange_ir
from xloom.distributed.plan import Plan, Stagings, header
from xloom.distributed.records import (
    HEADER,
    HEADER_BYTES,
    MISMATCH,
    MPI_FAILED,
    NO_MEMORY,
    PEER_FAILED,
    RUN,
    STOPPED,
    TIMED_OUT,
)
from xloom.distributed.tags import Tags
from xloom.errors import DistributedError
from xloom.llvm import jit

_ANNOUNCE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Processes:
    """The processes of a client, this one of which is number `process`, with so many devices at most."""

    def __init__(self, communicator: Communicator, process: int, timeout: float, devices: int):
        self.process = process
        self.timeout = timeout
        """Seconds that a collective waits for other processes."""
        self.communicator = communicator
        self._tags = Tags(devices, communicator.most_tag)
        code = jit.process_code(exchange_ir(self._tags), jit.PassPipeline.VECTORS)
        imports = {**addresses(), COMMUNICATOR: communicator.handle}
        self._library = jit.Library([code], ["xloom_exchange", "xloom_announce"], imports)
        self._announce = self._library.function("xloom_announce", _ANNOUNCE)
        self._stagings = Stagings()
        self._numbers = np.zeros(len(communicator.ranks), np.uint64)
        self._lock = threading.Lock()
        self._active: WeakSet[Run] = WeakSet()
        self._gone: dict[int, str] = {}
        self._announced: list[Any] = []

    def plan(self, sites: Sequence[CollectiveSite], places: Sequence[tuple[int, int]], declared: str) -> Plan:
        """The collectives of a program whose devices have these processes and ids; see `Plan`."""
        return Plan(sites, places, self.process, self.communicator.ranks, self._tags, self._stagings, declared)

    def run(self, plan: Plan, processes: frozenset[int]) -> Run:
        """The next run of a program of these processes, which all of them begin in the same order."""
        with self._lock:
            self._numbers[list(processes)] += np.uint64(1)
            run = Run(self, plan, self._numbers.copy())
            self._active.add(run)
            gone = [(process, why) for process, why in self._gone.items() if process in processes]
        if gone:
            run.lose(*gone[0])
        return run

    @property
    def exchange(self) -> int:
        """The address of the native function."""
        return self._library.address("xloom_exchange")

    def lose(self, process: int, why: str) -> None:
        """Ends all waits for a process that will not come."""
        with self._lock:
            self._gone[process] = why
            active = list(self._active)
        for run in active:
            run.lose(process, why)

    def announce(self, others: Iterable[int], numbers: np.ndarray, text: str) -> None:
        """Tells other processes that the runs of these numbers fail here."""
        for other in others:
            number = int(numbers[other])
            message = header(text, run=number)
            self._announced.append(message)  # MPI may read it later
            tag = self._tags.of_run(self._tags.failure, number)
            self._announce(ctypes.addressof(message), self.communicator.ranks[other], tag)

    def leave(self) -> None:
        """Tells the others that this process takes part in no further run."""
        others = [k for k in range(len(self._numbers)) if k != self.process]
        self.announce(others, self._numbers + np.uint64(1), f"process {self.process} has ended")


class Run:
    """What native code is told of a run, and what it says of a failure."""

    def __init__(self, processes: Processes, plan: Plan, numbers: np.ndarray):
        self._processes, self._plan, self._numbers = processes, plan, numbers
        self._theirs = ctypes.create_string_buffer(HEADER_BYTES)
        self._record = RUN.new(
            exchange=processes.exchange,
            records=plan.address,
            numbers=numbers.ctypes.data,
            timeout=int(processes.timeout * 1e9),
            their_header=ctypes.addressof(self._theirs),
        )
        self.address = ctypes.addressof(self._record)
        self._lost = ""
        self._is_stopped = threading.Lock()

    def _get(self, field: str) -> int:
        return self._record[RUN.offset(field) // 8]

    def _end(self) -> None:
        self._record[RUN.offset("is_stopped") // 8] = 1

    def lose(self, process: int, why: str) -> None:
        """A process will not come, for some reason."""
        self._lost = f"process {process} {why}"
        self._end()

    def stop(self, message: str) -> None:
        """Ends its waits, once, and tells the other processes why, unless they know."""
        if not self._is_stopped.acquire(blocking=False):
            return
        self._end()
        text = f"process {self._processes.process}: {message}"
        self._processes.announce(self._plan.others, self._numbers, text)

    @property
    def failure(self) -> DistributedError | None:
        """What went wrong between processes, if anything did."""
        error = self._get("error")
        if not error:
            return None
        record, me = self._get("error_record"), self._processes.process
        site = self._plan.sites[record]
        other = self._plan.peer(record, self._get("error_peer"))
        seconds = self._get("waited") / 1e9
        number = int(self._numbers[other])
        their_number = ctypes.c_uint64.from_buffer(self._theirs, HEADER.offset("run")).value
        theirs = ctypes.string_at(ctypes.addressof(self._theirs) + HEADER.size).decode("utf-8", "replace")
        if error == TIMED_OUT:
            message = (
                f"process {me} has waited {seconds:.1f} s for process {other}, which does not come to {site.label}"
            )
            if theirs:  # left by an earlier run
                message += f"; it is at {theirs} of run {their_number}, here is run {number}"
            hint = (
                "is it alive, and does it run the same program? XLOOM_DISTRIBUTED_TIMEOUT is how many seconds to wait"
            )
        elif error == STOPPED:
            message = f"process {me} waited for process {other} at {site.label} for {seconds:.1f} s, and was ended"
            message, hint = (f"{message}: {self._lost}", "") if self._lost else (message, "")
        elif error == MISMATCH:
            order = "" if their_number == number else f" of run {their_number}, here is run {number}"
            same = " of another program" if theirs == site.label else ""
            message = f"process {me} is at {site.label}, and process {other} at {theirs}{same}{order}"
            hint = "all processes run the same programs, in the same order, with arrays of the same shapes"
        elif error == PEER_FAILED:
            message = f"process {other} failed, for which process {me} waited {seconds:.1f} s at {site.label}: {theirs}"
            hint = ""
        elif error == MPI_FAILED:
            message = f"process {me} and process {other} at {site.label}: {error_text(self._get('error_number'))}"
            hint = ""
        else:
            assert error == NO_MEMORY, error
            message, hint = f"process {me} has no memory for what comes from others at {site.label}", ""
        return DistributedError(message, hint=hint)
