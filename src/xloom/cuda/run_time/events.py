"""Points of a stream's work, and what waits for them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING

from xloom.cuda.driver.driver import Driver
from xloom.cuda.driver.entry_points import DISABLE_TIMING
from xloom.cuda.driver.results import NOT_READY, SUCCESS, DriverError

if TYPE_CHECKING:
    from xloom.cuda.run_time.device import CudaDevice

_PAUSE = 50e-6
"""Seconds between two looks of who waits for a limited time."""


class Event:
    """A CUevent, which goes back to the others once nothing refers to it."""

    def __init__(self, handle: int, idle: deque[int]):
        self.handle, self._idle = handle, idle

    def __del__(self) -> None:
        self._idle.append(self.handle)


class Events:
    """Events of a device's context."""

    def __init__(self, driver: Driver):
        self._driver = driver
        self._idle: deque[int] = deque()

    def recorded(self, stream: int) -> Event:
        """An event behind all that a stream was given so far. The device is the thread's."""
        try:
            handle = self._idle.popleft()
        except IndexError:
            handle = self._driver.made("cuEventCreate", DISABLE_TIMING)
        event = Event(handle, self._idle)
        self._driver.call("cuEventRecord", handle, stream)
        return event


class Completion:
    """The end of work that a stream was given: whether it is there, what went wrong, and who wants to know."""

    def __init__(self, device: CudaDevice, event: Event, stream: int, where: str):
        self._device = device
        self.event, self.stream = event, stream
        self._where = where
        """What the work is of, for errors."""
        self.was_reached = False
        """True once a thread has seen the end."""
        self._error: DriverError | None = None

    @property
    def is_reached(self) -> bool:
        """Whether the work has ended, well or not."""
        return self.was_reached or self._saw("cuEventQuery")

    @property
    def error(self) -> DriverError | None:
        """What went wrong, once the work has ended."""
        return self._error

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until the work has ended; False after `timeout` seconds."""
        if timeout is None:
            return self.was_reached or self._saw("cuEventSynchronize")
        end = time.monotonic() + timeout
        while not self.is_reached:
            if time.monotonic() > end:
                return False
            time.sleep(_PAUSE)
        return True

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Calls it when the work has ended: at once if it has, else in a thread of the device's."""
        if self.is_reached:
            callback()
        else:
            _waiter(self._device).put((self, callback))

    def _saw(self, entry: str) -> bool:
        with self._device as device:
            result = device.driver.functions[entry](self.event.handle)
        if result == NOT_READY:
            return False
        if result != SUCCESS and self._error is None:
            self._error = DriverError(result, "a kernel failed, or one before it", where=self._where)
        self.was_reached = True
        return True


_Waiting = SimpleQueue[tuple[Completion, Callable[[], None]]]
_waiters: dict[CudaDevice, _Waiting] = {}
_starting = threading.Lock()


def _waiter(device: CudaDevice) -> _Waiting:
    """What a thread of the device waits for, one after another; it starts with the first who cannot wait itself."""
    with _starting:
        if device not in _waiters:
            waiting = _waiters[device] = _Waiting()
            name = f"xloom-cuda-{device.ordinal}"
            threading.Thread(target=_wait_for_all, args=(waiting,), name=name, daemon=True).start()
        return _waiters[device]


def _wait_for_all(waiting: _Waiting) -> None:
    while True:
        completion, callback = waiting.get()
        completion.wait()
        callback()
        del completion, callback  # they refer to arrays
