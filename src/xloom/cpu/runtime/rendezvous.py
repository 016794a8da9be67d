"""The rendezvous of the devices of one run: native code lets them wait for each other and read each other's memory."""

from __future__ import annotations

import ctypes
import threading
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from xloom.cpu.runtime.threads.host_ir import host_ir
from xloom.cpu.runtime.threads.rendezvous_ir import CELL_BYTES, PARTICIPANT_WORDS, rendezvous_ir
from xloom.llvm import jit


@lru_cache(maxsize=1)
def _library() -> jit.Library:
    code = jit.process_code(host_ir() + rendezvous_ir(), jit.PassPipeline.VECTORS)
    library = jit.Library([code], ["xloom_rendezvous_wait", "xloom_rendezvous_break", "xloom_rendezvous_prepare"])
    library.function("xloom_rendezvous_prepare", ctypes.CFUNCTYPE(None))()
    return library


@lru_cache(maxsize=1)
def _functions() -> tuple[int, Any]:
    """The address of `xloom_rendezvous_wait`, and `xloom_rendezvous_break`."""
    library = _library()
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return library.address("xloom_rendezvous_wait"), library.function("xloom_rendezvous_break", prototype)


_making = threading.Lock()


class Exchange(Protocol):
    """One run among several processes, as this one sees it."""

    address: int
    """Where native code finds it: see `EXCHANGE` and `RECORDS` of `rendezvous_ir`."""

    def stop(self, message: str) -> None:
        """Ends its waits, and tells the other processes why."""
        ...

    def turn(self) -> AbstractContextManager[None]:
        """While no other run of the same device is under way, where they must follow each other."""
        ...

    def conclude(self) -> Exception | None:
        """What went wrong between processes, if anything did; asked within the turn."""
        ...

    def keep(self, memory: Any) -> None:
        """Takes that of a device whose run has failed: others may still write to it."""
        ...


class NativeRendezvous:
    """One run of a program on `replicas` x `partitions` devices, with so many bytes for its barriers."""

    def __init__(self, replicas: int, partitions: int, nbytes: int, exchange: Exchange | None = None):
        self.failure = ""
        """Why a participant will never come, once that is so."""
        self.exchange = exchange
        """With other processes, if devices of the run are there."""
        self._devices = replicas * partitions
        self._partitions = partitions
        # to the next cache line: cells must not share one
        self._memory = np.zeros(nbytes + CELL_BYTES, np.uint8)
        self._address = -(-self._memory.ctypes.data // CELL_BYTES) * CELL_BYTES
        self._collectives = nbytes // (self._devices * (CELL_BYTES + 8))
        with _making:
            self._wait, self._break = _functions()

    def participant(self, replica: int, partition: int) -> np.ndarray:
        """What the native code of one device must know, as u64[7]; valid as long as this object."""
        number = replica * self._partitions + partition
        run = self.exchange.address if self.exchange is not None else 0
        words = [self._wait, self._address, number, replica, partition, self._devices, run]
        assert len(words) == PARTICIPANT_WORDS
        return np.array(words, np.uint64)

    def fail(self, message: str) -> None:
        """Ends the wait of all devices, now and later."""
        with _making:
            self.failure = self.failure or message
        if self.exchange is not None:
            self.exchange.stop(message)
        self._break(self._address, self._collectives, self._devices)
