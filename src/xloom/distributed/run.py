"""One run of a program among several processes, and what went wrong in it."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np

from xloom.cpu.entry.collective_sites import CollectiveSite
from xloom.distributed.communicator import Communicator, addresses, error_text
from xloom.distributed.exchange_ir import exchange_ir
from xloom.distributed.mpi_ir import COMMUNICATOR
from xloom.distributed.plan import Plan, Stagings, header
from xloom.distributed.records import (
    BRIEF,
    ENDED,
    HEADER,
    HEADER_BYTES,
    MISMATCH,
    MPI_FAILED,
    NO_MEMORY,
    PEER_FAILED,
    RUN,
    STOPPED,
    TIMED_OUT,
    TURNS,
)
from xloom.distributed.tags import Tags
from xloom.distributed.waits import WAITS, Exchange, Waits
from xloom.errors import DistributedError
from xloom.llvm import jit
from xloom.trace import active, watch

_ANNOUNCE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_HEAR = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_TAKE = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 2)
_TRY = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_WAIT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_END = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_open: list[Any] = []
"""Memory of runs that failed while data was on its way there."""
_TELLING = 1.0
"""Seconds in which the others are told of a failure; MPI may take long to send to who has died."""
_SOON = 0.2
"""Seconds by which who began to wait at the same time may give up later."""


class Processes:
    """The processes of a client, each of which has so many `devices`; this one is number `process`."""

    def __init__(self, communicator: Communicator, process: int, timeout: float, devices: Sequence[int]):
        self.process = process
        self.timeout = timeout
        """Seconds that a collective waits for other processes."""
        self.communicator = communicator
        self._tags = Tags(max(devices), communicator.most_tag)
        code = jit.process_code(exchange_ir(self._tags), jit.PassPipeline.VECTORS)
        self._waits = Waits()
        imports = {**addresses(), COMMUNICATOR: communicator.handle, WAITS: self._waits.address}
        turns = [f"xloom_turn_{what}" for what in ("take", "wait", "end", "try")]
        self._library = jit.Library([code], ["xloom_exchange", "xloom_announce", "xloom_hear", *turns], imports)
        self._announce = self._library.function("xloom_announce", _ANNOUNCE)
        self._hear = self._library.function("xloom_hear", _HEAR)
        self._take = self._library.function("xloom_turn_take", _TAKE)
        self._try = self._library.function("xloom_turn_try", _TRY)
        self._wait = self._library.function("xloom_turn_wait", _WAIT)
        self._end = self._library.function("xloom_turn_end", _END)
        self._turns = TURNS.new()
        self.has_turns = devices[process] == 1
        """Whether runs follow each other, as all of them are on one device."""
        self._stagings = Stagings()
        self._numbers = np.zeros(len(communicator.ranks), np.uint64)
        self._lock = threading.Lock()
        self._active: WeakSet[Run] = WeakSet()
        self._plans: WeakSet[Plan] = WeakSet()
        self._labels: dict[tuple[int, int], str] = {}
        self._gone: dict[int, str] = {}
        self._absent: dict[int, Absence] = {}
        self._announced: list[Any] = []
        self._last_error = ""
        """Of a run of this process; who was a run ahead, and so heard nothing of that one, hears of it in the end."""
        watch(self._trace)

    def plan(
        self, sites: Sequence[CollectiveSite], places: Sequence[tuple[int, int]], declared: str, name: str
    ) -> Plan:
        """The collectives of a program whose devices have these processes and ids; see `Plan`."""
        plan = Plan(sites, places, self.process, self.communicator.ranks, self._tags, self._stagings, declared, name)
        self._plans.add(plan)
        self._labels.update(plan.labels)
        self._waits.add(plan.exchanges)
        return plan

    def label(self, program: int, collective: int) -> str:
        """What a collective is called that this process has had, by the numbers in its header."""
        return self._labels[program, collective]

    def _trace(self, _: bool) -> None:
        self._waits.end()
        trace = active()
        if trace is not None:
            self._waits.begin(trace, ChainMap(*(plan.exchanges for plan in list(self._plans))))

    def run(self, plan: Plan, processes: frozenset[int], *, is_nested: bool = False) -> Run:
        """The next run of a program of these processes, which all of them begin in the same order.

        One that is nested, in a callback of another run, does not wait until that has ended."""
        self._waits.tell()
        own, table = np.zeros_like(self._numbers), _table(processes)
        takes = self.has_turns and not is_nested
        ticket = self._take(self.turns, self.numbers, own.ctypes.data, table.ctypes.data, len(table), takes)
        return self._watched(Run(self, plan, own, ticket if takes else None), processes)

    def brief(self, plan: Plan, processes: frozenset[int]) -> Brief:
        """All runs of a program by the caller's thread, where nothing else is under way."""
        assert self.has_turns
        run = self._watched(Run(self, plan, np.zeros_like(self._numbers), is_brief=True), processes)
        return Brief(self, run, processes)

    def _watched(self, run: Run, processes: frozenset[int]) -> Run:
        with self._lock:
            self._active.add(run)
            gone = [(process, why) for process, why in self._gone.items() if process in processes]
            absences = [each for process, each in self._absent.items() if process in processes and each.lasts]
        if gone:
            run.lose(*gone[0])
        elif absences:
            run.forgo(absences[0].error)
        return run

    def give_up(self, process: int, error: DistributedError) -> None:
        """One has been waited for in vain: what has been launched, or is before a user knows of it, gets the same error
        at once, or each would wait for as long."""
        with self._lock:
            self._absent[process] = Absence(error, time.monotonic() + self.timeout)
            queued = [run for run in self._active if run.will_await(process)]
        for run in queued:
            run.forgo(error)

    def wait(self, ticket: int) -> None:
        """Waits until it is a run's turn."""
        self._wait(self.turns, ticket)

    def try_turn(self, brief: int) -> bool:
        """Begins a run of the BRIEF at an address, unless another one is under way."""
        return bool(self._try(brief))

    def end_turn(self) -> None:
        """The run whose turn it is has ended."""
        self._end(self.turns)

    def address(self, name: str) -> int:
        """Of a native function: what `xloom_` is followed by."""
        return self._library.address(f"xloom_{name}")

    @property
    def turns(self) -> int:
        """The address of the TURNS."""
        return ctypes.addressof(self._turns)

    @property
    def numbers(self) -> int:
        """The address of the numbers of the last runs, by process."""
        return self._numbers.ctypes.data

    def lose(self, process: int, why: str) -> None:
        """Ends all waits for a process that will not come."""
        with self._lock:
            self._gone[process] = why
            active = list(self._active)
        for run in active:
            run.lose(process, why)

    def announce(self, others: Iterable[int], numbers: np.ndarray, text: str, collective: int = 0) -> None:
        """Tells other processes that the runs of these numbers fail here."""
        for other in others:
            number = int(numbers[other])
            message = header(text, collective, run=number)
            self._announced.append(message)  # MPI may read it later
            tag = self._tags.of_run(self._tags.failure, number)
            self._announce(ctypes.addressof(message), self.communicator.ranks[other], tag)

    def heard(self, other: int, number: int) -> str:
        """What another process tells, at this moment or soon, of the failure of a run of that number; nothing else."""
        message = ctypes.create_string_buffer(HEADER_BYTES)
        tag = self._tags.of_run(self._tags.failure, number)
        end = time.monotonic() + _SOON
        while not self._hear(ctypes.addressof(message), self.communicator.ranks[other], tag):
            if time.monotonic() > end:
                return ""
            time.sleep(_SOON / 100)
        is_this = _field(message, "run") == number
        return _text(message).partition("\n")[0] if is_this else ""

    def note(self, error: DistributedError) -> None:
        """A run has failed."""
        self._last_error = str(error).partition("\n")[0]

    def leave(self) -> None:
        """Tells the others that this process takes part in no further run."""
        others = [k for k in range(len(self._numbers)) if k != self.process]
        why = f", after an error: {self._last_error}" if self._last_error else ""
        self.announce(others, self._numbers + np.uint64(1), f"process {self.process} has ended{why}", ENDED)


@dataclass(frozen=True)
class Absence:
    """A process that has been waited for in vain, until a user has been told of it, or a time."""

    error: DistributedError
    end: float

    @property
    def lasts(self) -> bool:
        """Whether the process is not waited for."""
        return not self.error.is_told and time.monotonic() < self.end


class Run:
    """What native code is told of a run, and what it says of a failure."""

    def __init__(
        self,
        processes: Processes,
        plan: Plan,
        numbers: np.ndarray,
        ticket: int | None = None,
        *,
        is_brief: bool = False,
    ):
        self._processes, self._plan, self._numbers, self._ticket = processes, plan, numbers, ticket
        self._is_brief, self._has_begun = is_brief, False
        self._theirs = ctypes.create_string_buffer(HEADER_BYTES)
        self._record = RUN.new(
            exchange=processes.address("exchange"),
            records=plan.address,
            numbers=numbers.ctypes.data,
            timeout=int(processes.timeout * 1e9),
            their_header=ctypes.addressof(self._theirs),
        )
        self.address = ctypes.addressof(self._record)
        self._lost = ""
        self._forgone: DistributedError | None = None
        self._conclusion: DistributedError | None = None
        self._concluding = threading.Lock()  # by each device's thread
        self._is_stopped = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """While no other run of the same device is under way; once at most. Raises why it is not to begin."""
        with self._turn():
            self._has_begun = True
            if self._forgone is not None:
                raise self._forgone
            yield

    @contextmanager
    def _turn(self) -> Iterator[None]:
        ticket, self._ticket = self._ticket, None
        if ticket is None:
            yield
            return
        self._processes.wait(ticket)
        try:
            yield
        finally:
            self._processes.end_turn()

    def skip(self) -> None:
        """Lets its turn pass, unless it has had it."""
        with self._turn():
            pass

    def _get(self, field: str) -> int:
        return self._record[RUN.offset(field) // 8]

    def _end(self) -> None:
        self._record[RUN.offset("is_stopped") // 8] = 1

    def lose(self, process: int, why: str) -> None:
        """A process will not come, for some reason."""
        self._lost = f"process {process} {why}"
        self._end()

    def will_await(self, process: int) -> bool:
        """Whether it is yet to begin, as all that the caller's thread runs are time and again, and needs a process."""
        return (self._is_brief or not self._has_begun) and process in self._plan.others

    def forgo(self, error: DistributedError) -> None:
        """Has it fail, instead of beginning, by the error of another run, which has waited for a process in vain that
        it needs, too. What the caller's thread runs does not begin: the device's thread does it, or fails."""
        self._forgone = error
        if self._is_brief:
            self._end()

    def stop(self, message: str) -> None:
        """Ends its waits, once, and tells the other processes why, unless they know."""
        if not self._is_stopped.acquire(blocking=False):
            return
        self._end()
        text = f"process {self._processes.process}: {message}"
        telling = threading.Thread(
            target=self._processes.announce, args=(self._others(), self._numbers.copy(), text), daemon=True
        )
        telling.start()
        telling.join(_TELLING)

    def _others(self) -> list[int]:
        """The other processes, last the one that it waits for: MPI may be long in sending to it, if it is dead."""
        others = list(self._plan.others)
        if self._get("error"):
            _, late = self._awaited
            others.sort(key=lambda other: other == late)
        return others

    def keep(self, memory: Any) -> None:
        """Keeps that of a failed run for good, if MPI may still write there."""
        if self._get("is_open"):
            _open.append(memory)

    def _their_field(self, field: str) -> int:
        return _field(self._theirs, field)

    def _their_text(self) -> str:
        """What came with another process's header; or, where none did, what this one calls such a collective."""
        if self._their_field("nbytes") == HEADER.size:
            return self._processes.label(self._their_field("program"), self._their_field("collective"))
        return _text(self._theirs)

    def conclude(self) -> DistributedError | None:
        """What went wrong between processes, if anything did. Other runs do not wait for who does not come."""
        error = self._get("error")
        if not error:
            return None
        with self._concluding:
            if self._conclusion is None:
                _, other = self._awaited
                failure = self._failure(error)
                if error == TIMED_OUT:
                    self.stop(str(failure))  # who is a run ahead gives up at the same time, and may listen
                    failure = self._failure(error, self._processes.heard(other, int(self._numbers[other]) - 1))
                self._conclusion = failure
                self._processes.note(failure)
                if error == TIMED_OUT:
                    self._processes.give_up(other, failure)
                elif error == PEER_FAILED and self._their_field("collective") == ENDED:
                    self._processes.lose(other, "has ended")
            return self._conclusion

    @property
    def _awaited(self) -> tuple[Exchange, int]:
        """What the error is about: an exchange, and which process did not do its part."""
        exchange = self._plan.exchanges[self._get("error_record")]
        return exchange, exchange.peers[self._get("error_peer")]

    def _failure(self, error: int, before: str = "") -> DistributedError:
        """What an error is called; `before` is what the process says of a failure of the run before that it awaits."""
        me = self._processes.process
        exchange, other = self._awaited
        site = exchange.site
        seconds = self._get("waited") / 1e9
        number = int(self._numbers[other])
        their_number = self._their_field("run")
        theirs = self._their_text()
        if error == TIMED_OUT:
            message = (
                f"process {me} has waited {seconds:.1f} s for process {other}, which does not come to {site.label}"
            )
            if theirs:  # left by an earlier run
                message += f"; it is at {theirs} in run {their_number}, here is run {number}"
            if before:
                message += f"; the run before has failed there: {before}"
            hint = (
                "is it alive, and does it run the same program? XLOOM_DISTRIBUTED_TIMEOUT is how many seconds to wait"
            )
        elif error == STOPPED:
            message = f"process {me} waited for process {other} at {site.label} for {seconds:.1f} s, and was ended"
            message, hint = (f"{message}: {self._lost}", "") if self._lost else (message, "")
        elif error == MISMATCH:
            order = "" if their_number == number else f" in run {their_number}, here is run {number}"
            mine = self._plan.label(site)
            message = f"process {me} is at {mine}, and process {other} at {theirs}{order}"
            hint = "all processes run the same programs, in the same order, with arrays of the same shapes"
            if theirs == mine and not order:
                message = f"process {me} and process {other} are at {mine}, which has other collectives in each"
        elif error == PEER_FAILED:
            message = f"process {other} failed, for which process {me} waited {seconds:.1f} s at {site.label}: {theirs}"
            hint = ""
        elif error == MPI_FAILED:
            said = error_text(self._get("error_number"))
            message = f"process {me} waited {seconds:.1f} s for process {other} at {site.label}, and MPI failed: {said}"
            hint = ""
        else:
            assert error == NO_MEMORY, error
            message, hint = f"process {me} has no memory for what comes from others at {site.label}", ""
        return DistributedError(message, hint=hint)


class Brief:
    """What native code is told of a program that the caller's thread runs, and what went wrong in the last run."""

    def __init__(self, processes: Processes, run: Run, members: frozenset[int]):
        self._processes, self.run, self._members = processes, run, _table(members)
        self._record = BRIEF.new(
            turns=processes.turns,
            run=run.address,
            shared=processes.numbers,
            processes=self._members.ctypes.data,
            num_processes=len(members),
        )
        self.address = ctypes.addressof(self._record)

    @property
    def begin(self) -> int:
        """The address of a function of the BRIEF, which says whether a run has begun."""
        return self._processes.address("turn_try")

    @property
    def end_address(self) -> int:
        """The address of a function of the TURNS, which ends it."""
        return self._processes.address("turn_end")

    @property
    def turns(self) -> int:
        """The address of the TURNS."""
        return self._processes.turns

    def try_begin(self) -> bool:
        """Begins a run, unless another one is under way or waits, or a process is gone."""
        return self._processes.try_turn(self.address)

    def end(self) -> None:
        """Ends a run that has begun."""
        self._processes.end_turn()


def _field(message: Any, field: str) -> int:
    return ctypes.c_uint64.from_buffer(message, HEADER.offset(field)).value


def _text(message: Any) -> str:
    return ctypes.string_at(ctypes.addressof(message) + HEADER.size).decode("utf-8", "replace")


def _table(processes: frozenset[int]) -> np.ndarray:
    return np.array(sorted(processes), np.uint64)
