"""The processor's own counters while a program runs: instructions, cycles, misses of caches and branches, on Linux."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from xloom.errors import UnsupportedError

_SYSCALL = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "riscv64": 241}
"""The number of perf_event_open."""
_EVENTS = {
    "cycles": 0,
    "instructions": 1,
    "cache references": 2,
    "cache misses": 3,
    "branches": 4,
    "branch misses": 5,
}
"""PERF_COUNT_HW_..., of PERF_TYPE_HARDWARE. References and misses are of the last cache."""
_SIZE, _DISABLED, _NO_KERNEL, _NO_HYPERVISOR = 64, 1 << 0, 1 << 5, 1 << 6
_TIMES = 0b11
"""PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING: there are fewer counters than events, which take turns."""
_ENABLE, _DISABLE = 0x2400, 0x2401
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


class Counters:
    """Counts what all threads do that the process has when it is made, in user mode.

    Raises UnsupportedError that says why where the system does not let it, or the processor has none.
    """

    def __init__(self) -> None:
        self._files: dict[str, list[int]] = {name: [] for name in _EVENTS}
        with ExitStack() as opened:
            for thread in map(int, os.listdir("/proc/self/task")) if Path("/proc/self/task").is_dir() else [0]:
                for name, event in _EVENTS.items():
                    file = _opened(event, thread)
                    if file is None:
                        continue  # the processor does not count this
                    opened.callback(os.close, file)
                    self._files[name].append(file)
            if not self._files["cycles"]:
                raise _unavailable(
                    "this processor, or the virtual machine that it is, has no counters",
                    "run it on the machine itself, or give the virtual machine a PMU (QEMU: -cpu host,pmu=on)",
                )
            self._close = opened.pop_all()

    def __enter__(self) -> Counters:
        return self

    def __exit__(self, *_: object) -> None:
        self._close.close()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Counts until the end of the `with`, on top of what was counted before."""
        self._control(_ENABLE)
        try:
            yield
        finally:
            self._control(_DISABLE)

    def read(self) -> Mapping[str, float]:
        """What was counted so far, by name; an event that took turns with others is scaled to all of the time."""
        return {name: sum(map(_value, files)) for name, files in self._files.items() if files}

    def _control(self, request: int) -> None:
        import fcntl

        for files in self._files.values():
            for file in files:
                fcntl.ioctl(file, request, 0)


def _value(file: int) -> float:
    value, enabled, running = struct.unpack("<QQQ", os.read(file, 24))
    return value * enabled / running if running else 0.0


def _opened(event: int, thread: int) -> int | None:
    """The file of a counter; None where the processor has none for the event."""
    number = _SYSCALL.get(platform.machine())
    if platform.system() != "Linux" or number is None:
        raise _unavailable(
            f"{platform.system()} on {platform.machine()} has no perf_event_open that is known here", "use Linux"
        )
    flags = _DISABLED | _NO_KERNEL | _NO_HYPERVISOR
    attributes = struct.pack("<IIQQQQQ", 0, _SIZE, event, 0, 0, _TIMES, flags).ljust(_SIZE, b"\0")
    return _perf_event_open(number, attributes, thread)


def _perf_event_open(number: int, attributes: bytes, thread: int) -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    file = libc.syscall(ctypes.c_long(number), attributes, thread, -1, -1, ctypes.c_ulong(0))
    if file >= 0:
        return file
    error = ctypes.get_errno()
    if error in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL):
        return None
    raise _unavailable(*_refusal(error))


def _refusal(error: int) -> tuple[str, str]:
    """Why there are none, and what to do."""
    allow = "sudo sysctl kernel.perf_event_paranoid=2"
    if error == errno.ENOSYS:
        return (
            "this system has no perf_event_open",
            "run it outside of the sandbox, on a kernel with CONFIG_PERF_EVENTS",
        )
    if error in (errno.EACCES, errno.EPERM):
        level = _PARANOID.read_text().strip() if _PARANOID.exists() else ""
        if level and int(level) > 2:
            return f"{_PARANOID} is {level}, which lets only root count", allow
        return (
            "the system does not allow it, as in containers",
            f"docker run --cap-add PERFMON; {allow} outside of them",
        )
    return f"perf_event_open: {os.strerror(error)}", allow


def _unavailable(why: str, hint: str) -> UnsupportedError:
    return UnsupportedError(f"the processor's counters cannot be read: {why}", hint=hint)
