"""A time limit for calls in this process: where every thread is goes to standard error, and the call is ended."""

from __future__ import annotations

import ctypes
import faulthandler
import signal
import sys
import tempfile
import threading
import traceback
from types import FrameType, TracebackType

from xloom.calls.sanitizer.trap import Trap, interrupt_signal

_AGAIN = 0.5
"""Seconds after which native code is ended again that had not begun, or was calling Python."""


class TimeLimit(BaseException):
    """Ends Python code that has run for too long."""


class Watchdog:
    """`with Watchdog(seconds, trap, what)`: `fired` has the stacks of all threads when the limit was exceeded.

    Native code is ended through `trap`, Python code by TimeLimit. Code that sleeps in the system cannot be ended.
    """

    def __init__(self, seconds: float, trap: Trap | None, what: str):
        self.fired = ""
        self._seconds, self._trap, self._what = seconds, trap, what
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._timer = threading.Timer(seconds, self._fire)
        self._timer.daemon = True

    def __enter__(self) -> Watchdog:
        self._timer.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        with self._lock:
            self._done.set()
        self._timer.cancel()
        if self.fired and self._trap is None and kind is not TimeLimit:
            _raise_in(self._thread, None)
        return kind is TimeLimit

    def _fire(self) -> None:
        with self._lock:
            if self._done.is_set():
                return
            self.fired = stacks(self._thread)
            print(f"{self._what} has not returned after {self._seconds:g} s\n{self.fired}", file=sys.stderr, flush=True)
            if self._trap is None:
                _raise_in(self._thread, TimeLimit)
                return
        while not self._done.is_set():
            with self._lock:
                if not self._done.is_set():
                    signal.pthread_kill(self._thread, interrupt_signal())
            self._done.wait(_AGAIN)


def stacks(thread: int) -> str:
    """Where `thread` is, the main one, and the others, of which there may be more than faulthandler tells."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        others = file.read().partition("\n\n")[2]  # the first is this one
    told = {thread: "The thread of the call"}
    told.setdefault(threading.main_thread().ident or 0, "The main thread")
    frames = sys._current_frames()
    return "\n".join([*(_stack(name, frames[each]) for each, name in told.items() if each in frames), others])


def _stack(name: str, frame: FrameType) -> str:
    lines = (
        f'  File "{at.filename}", line {at.lineno} in {at.name}' for at in reversed(traceback.extract_stack(frame))
    )
    return "\n".join([f"{name} (most recent call first):", *lines, ""])


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    value = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), value)
