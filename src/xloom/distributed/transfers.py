"""Arrays that go from a process to another besides programs: each by a number, on which both agree.

A header goes ahead, with which small arrays travel; the bytes of others follow. One thread of a process looks after all
its transfers, so that none of them holds up another, or a program.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import NamedTuple

import numpy as np

from xloom.distributed.communicator import BYTE, Communicator, error_text
from xloom.distributed.library import library
from xloom.distributed.records import FIRST_BYTES, HEADER_BYTES, INLINE, LONGEST
from xloom.distributed.tags import Tags
from xloom.errors import DistributedError, XloomError
from xloom.llvm.struct_layout import StructLayout

_ITS_LOG = "what that process printed says why: it is above this, or in its own log"
_HEADER = StructLayout("key", "nbytes", "has_failed")
_FACE = HEADER_BYTES - _HEADER.size
"""Bytes of the text behind these fields."""
_LOOKS = 64
"""How often who waits looks without a pause."""
_YIELDING, _LONG = 0.002, 0.1
"""Seconds in which nothing has come after which the pauses are short, and long."""
_SHORT_SLEEP, _LONG_SLEEP = 50e-6, 1e-3
_GRACE = 1.0
"""Seconds in which what a process has sent before it ended must have come."""
_FAREWELL = 0.05
"""Seconds in which the message that a process ends should be sent."""

Done = Callable[[XloomError | None], None]
"""What is called in the end, with what went wrong."""
_Requests = list[ctypes.c_void_p]
_Steps = Generator[_Requests, None, None]


class Parcel(NamedTuple):
    """What is transferred: its number, the other process, and what both say of it."""

    key: int
    other: int
    label: str


class _Transfer:
    """One that is under way: its next steps, and what it waits for."""

    def __init__(self, parcel: Parcel, steps: _Steps, done: Done, *, receives: bool):
        self.parcel, self.steps, self.done, self.receives = parcel, steps, done, receives
        self.requests: _Requests = []
        self.began = time.monotonic()


class Transfers:
    """Those of this process, which is number `process`, with all others."""

    def __init__(self, communicator: Communicator, process: int, timeout: float, tags: Tags):
        self._communicator, self._process, self._timeout, self._tags = communicator, process, timeout, tags
        self._new: SimpleQueue[_Transfer] = SimpleQueue()
        self._under_way: list[_Transfer] = []
        self._came = [0.0] * len(communicator.ranks)
        """When something last came from each process."""
        self._gone: dict[int, tuple[float, str]] = {}
        """Since when processes are, and why."""
        self._watched: dict[int, tuple[ctypes.c_void_p, np.ndarray]] = {}
        self._kept: dict[int, tuple[ctypes.c_void_p, np.ndarray]] = {}
        """Memory that MPI may still read or write, by the identity of its request."""
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._is_idle = threading.Event()
        self._is_idle.set()

    def send(self, parcel: Parcel, array: np.ndarray | None, done: Done, *, failure: str = "") -> None:
        """Sends an array, which must not change until it is done; without one, why there is none."""
        self._begin(_Transfer(parcel, self._sending(parcel, array, failure), done, receives=False))

    def receive(self, parcel: Parcel, array: np.ndarray, done: Done) -> None:
        """Fills an array with what the other process sends."""
        self._begin(_Transfer(parcel, self._receiving(parcel, array), done, receives=True))

    def lose(self, process: int, why: str) -> None:
        """Ends the transfers with a process that is gone."""
        self._gone.setdefault(process, (time.monotonic(), why))

    def leave(self) -> None:
        """Waits for what is being sent, and tells the others that nothing more comes."""
        if self._thread is not None:
            self._is_idle.wait(self._timeout)
        requests = []
        for other in range(len(self._came)):
            if other != self._process:
                with suppress(DistributedError):  # who cannot be reached need not know
                    requests += self._post(True, np.zeros(1, np.uint8), other, self._tags.end)
        until = time.monotonic() + _FAREWELL
        with suppress(DistributedError):
            while requests and time.monotonic() < until:
                requests = [request for request in requests if not self._is_done(request)]

    def _begin(self, transfer: _Transfer) -> None:
        with self._starting:
            self._is_idle.clear()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="transfers between processes", daemon=True)
                self._thread.start()
            self._new.put(transfer)

    def _sending(self, parcel: Parcel, array: np.ndarray | None, failure: str) -> _Steps:
        fields = _HEADER.new(key=parcel.key, nbytes=0 if array is None else array.nbytes, has_failed=array is None)
        face = (parcel.label if array is not None else failure).encode("utf-8", "replace")[: _FACE - 1]
        data = _bytes_of(array) if array is not None else np.empty(0, np.uint8)
        is_small = data.size <= INLINE
        first = np.zeros(HEADER_BYTES + (data.size if is_small else 0), np.uint8)
        first[:HEADER_BYTES] = np.frombuffer((bytes(fields) + face).ljust(HEADER_BYTES, b"\0"), np.uint8)
        if is_small:
            first[HEADER_BYTES:] = data
        requests = self._post(True, first, parcel.other, self._tags.transfer(parcel.key, is_data=False))
        if not is_small:
            requests += self._post(True, data, parcel.other, self._tags.transfer(parcel.key, is_data=True))
        yield requests

    def _receiving(self, parcel: Parcel, array: np.ndarray) -> _Steps:
        first, me, other = np.empty(FIRST_BYTES, np.uint8), self._process, parcel.other
        yield self._post(False, first, other, self._tags.transfer(parcel.key, is_data=False))
        key, nbytes, has_failed = first[: _HEADER.size].view(np.uint64).tolist()
        face = bytes(first[_HEADER.size : HEADER_BYTES]).split(b"\0", 1)[0].decode("utf-8", "replace")
        if has_failed:
            raise DistributedError(
                f"process {other} failed, from which process {me} receives {parcel.label}: {face}",
                hint=_ITS_LOG,
            )
        fits = (key, nbytes, face) == (parcel.key, array.nbytes, parcel.label)
        data = _bytes_of(array) if fits else np.empty(nbytes, np.uint8)
        if nbytes <= INLINE:
            data[:] = first[HEADER_BYTES : HEADER_BYTES + nbytes]
        else:
            yield self._post(False, data, other, self._tags.transfer(parcel.key, is_data=True))
        if not fits:
            raise DistributedError(
                f"process {me} receives {parcel.label} as transfer {parcel.key}, and process {other} sends {face} as "
                f"transfer {key}",
                hint="all processes transfer the same arrays, in the same order",
            )

    def _post(self, sends: bool, data: np.ndarray, other: int, tag: int) -> _Requests:
        """Begins to send or to receive bytes, in messages that are not too long."""
        mpi, requests = library(), []
        call = mpi.MPI_Isend if sends else mpi.MPI_Irecv
        for start in range(0, data.size, LONGEST):
            piece, request = data[start : start + LONGEST], ctypes.c_void_p()
            self._kept[id(request)] = request, piece
            number = call(
                ctypes.c_void_p(piece.__array_interface__["data"][0]),
                ctypes.c_int(piece.size),
                ctypes.c_void_p(BYTE),
                ctypes.c_int(self._communicator.ranks[other]),
                ctypes.c_int(tag),
                ctypes.c_void_p(self._communicator.handle),
                ctypes.byref(request),
            )
            self._check(number, other)
            requests.append(request)
        return requests

    def _is_done(self, request: ctypes.c_void_p) -> bool:
        is_done = ctypes.c_int()
        number = library().MPI_Test(ctypes.byref(request), ctypes.byref(is_done), None)
        if number:
            raise DistributedError(
                f"a transfer of process {self._process}: {error_text(number)}",
                hint=_ITS_LOG,
            )
        if is_done.value:
            del self._kept[id(request)]
        return bool(is_done.value)

    def _check(self, number: int, other: int) -> None:
        if number:
            raise DistributedError(
                f"process {self._process} and process {other}: {error_text(number)}",
                hint=_ITS_LOG,
            )

    def _run(self) -> None:
        """What the thread does."""
        looks, came = 0, time.monotonic()
        while True:
            if not self._under_way:
                self._rest()
                looks, came = 0, time.monotonic()
            with suppress(Empty):
                while True:
                    self._start(self._new.get_nowait())
            if any([self._look(transfer) for transfer in list(self._under_way)]):
                looks, came = 0, time.monotonic()
                continue
            looks += 1
            if looks < _LOOKS:
                continue
            self._end_late_ones()
            quiet = time.monotonic() - came
            time.sleep(0 if quiet < _YIELDING else _SHORT_SLEEP if quiet < _LONG else _LONG_SLEEP)

    def _rest(self) -> None:
        """Until there is something to do."""
        with self._starting:
            if self._new.empty():
                self._is_idle.set()
        self._start(self._new.get())

    def _start(self, transfer: _Transfer) -> None:
        self._under_way.append(transfer)
        self._advance(transfer)

    def _look(self, transfer: _Transfer) -> bool:
        """Goes on with a transfer if what it waits for is there; whether it was."""
        try:
            left = [request for request in transfer.requests if not self._is_done(request)]
        except XloomError as error:
            self._end(transfer, error)
            return True
        if len(left) == len(transfer.requests):
            return False
        transfer.requests = left
        self._came[transfer.parcel.other] = time.monotonic()
        if not left:
            self._advance(transfer)
        return True

    def _advance(self, transfer: _Transfer) -> None:
        """The next step, or the end."""
        try:
            transfer.requests = next(transfer.steps)
        except StopIteration:
            self._end(transfer, None)
        except XloomError as error:
            self._end(transfer, error)
        except Exception as error:
            self._end(
                transfer,
                DistributedError(
                    f"a transfer with process {transfer.parcel.other}: {error!r}",
                    hint=_ITS_LOG,
                ),
            )

    def _end(self, transfer: _Transfer, error: XloomError | None) -> None:
        self._under_way.remove(transfer)
        transfer.done(error)

    def _end_late_ones(self) -> None:
        """Ends transfers with processes that are gone, or from which nothing comes."""
        now = time.monotonic()
        for transfer in list(self._under_way):
            parcel, me = transfer.parcel, self._process
            does = "receive" if transfer.receives else "send"
            self._watch(parcel.other)
            since = max(transfer.began, self._came[parcel.other])
            gone, why = self._gone.get(parcel.other, (now, ""))
            if now - gone > _GRACE:
                waited = f"process {me} waited for process {parcel.other}, to {does} {parcel.label}"
                self._give_up(
                    transfer,
                    DistributedError(
                        f"{waited}: process {parcel.other} {why}",
                        hint=_ITS_LOG,
                    ),
                )
            elif now - since > self._timeout:
                self._give_up(
                    transfer,
                    DistributedError(
                        f"process {me} has waited {now - since:.1f} s for process {parcel.other}, to {does} "
                        f"{parcel.label}, transfer {parcel.key}",
                        hint="is it alive, and does it transfer the same arrays? XLOOM_DISTRIBUTED_TIMEOUT is how many "
                        "seconds to wait",
                    ),
                )

    def _give_up(self, transfer: _Transfer, error: DistributedError) -> None:
        # memory is kept, in case that something comes nevertheless; what is sent cannot be called back
        for request in transfer.requests if transfer.receives else ():
            library().MPI_Cancel(ctypes.byref(request))
        self._end(transfer, error)

    def _watch(self, other: int) -> None:
        """Notices when a process says that nothing more comes from it."""
        if other in self._gone:
            return
        if other not in self._watched:
            byte = np.zeros(1, np.uint8)
            self._watched[other] = self._post(False, byte, other, self._tags.end)[0], byte
        elif self._is_done(self._watched[other][0]):
            self.lose(other, "has ended")


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """The bytes of a row-major array."""
    return array.reshape(-1).view(np.uint8)
