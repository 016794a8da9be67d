"""A call in a child process: what ends the child is an error here."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from typing import IO, Any

from xloom.errors import CustomCallError, XloomError

_GRACE = 10.0
"""Seconds that a child has at most to write its stacks: a machine may have other things to do."""
_POLL = 0.02


def run_in_child(work: Callable[[], None], seconds: float, what: str, where: str) -> None:
    """Runs `work` in a fork of this process. Raises CustomCallError with its failure, or with what ended the child.

    Memory that both share has what the child wrote; all else that it changes is lost with it.
    """
    reader, writer = os.pipe()
    data: bytes | None = None
    with tempfile.TemporaryFile("w+") as log:
        child = _fork()
        if child == 0:
            os.close(reader)
            _live(work, seconds, writer, log)
        os.close(writer)
        try:
            data = _read(reader, seconds)
            if data is None:
                data = _read_or_stack(reader, log)
        finally:
            os.close(reader)
            if data is None:
                os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
        log.seek(0)
        stack = log.read()
    if data is None:
        raise _noted(CustomCallError(f"{what} has not returned after {seconds:g} s", where=where), stack)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        raise _noted(CustomCallError(f"{what} died of {name}", where=where), stack)
    if not data:
        code = os.waitstatus_to_exitcode(status)
        raise CustomCallError(f"{what} ended its process with exit status {code}", where=where)
    report = json.loads(data)
    if report is not None:
        raise _noted(CustomCallError(report["message"], where=report["where"], hint=report["hint"]), report["stack"])


def _fork() -> int:
    _flush()
    with warnings.catch_warnings():
        # libraries warn that threads do not come along; the child only makes the call
        warnings.simplefilter("ignore")
        return os.fork()


def _live(work: Callable[[], None], seconds: float, writer: int, log: IO[str]) -> None:
    """The child's life."""
    faulthandler.enable(log, all_threads=False)
    # by a signal, as a watchdog that the parent has would be waited for here, where its thread is not
    faulthandler.register(signal.SIGALRM, log, all_threads=False)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        work()
        report: Any = None
    except XloomError as error:
        stack = "".join(traceback.format_exception(error.__cause__)) if error.__cause__ else ""
        report = {"message": error.message, "where": error.where, "hint": error.hint, "stack": stack}
    except BaseException as error:
        stack = "".join(traceback.format_exception(error))
        report = {"message": f"{type(error).__name__}: {error}", "where": "", "hint": "", "stack": stack}
    signal.setitimer(signal.ITIMER_REAL, 0)
    _flush()
    with open(writer, "wb") as pipe:
        pipe.write(json.dumps(report).encode())
    os._exit(0)


def _flush() -> None:
    """Writes what waits to be written, so that it is not written twice or lost."""
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)


def _read(pipe: int, seconds: float) -> bytes | None:
    """All that comes until the other end closes; None when it does not in time."""
    data, end = b"", time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return None
        part = os.read(pipe, 1 << 16)
        if not part:
            return data
        data += part


def _read_or_stack(pipe: int, log: IO[str]) -> bytes | None:
    """What comes in the end; None when the child has written its stacks, or does neither."""
    end, size = time.monotonic() + _GRACE, 0
    while time.monotonic() < end:
        data = _read(pipe, _POLL)
        before, size = size, os.fstat(log.fileno()).st_size
        if data is not None or (size and size == before):
            return data
    return None


def _noted(error: CustomCallError, stack: str) -> CustomCallError:
    if stack:
        error.add_note(stack.rstrip())
    return error
