"""Which custom calls run now in this thread, and on which device: what they call must not wait for that device."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from xloom.errors import CustomCallError


class _Running(threading.local):
    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []


_running = _Running()


@contextmanager
def running(target: str, device: str, where: str) -> Iterator[None]:
    """While a custom call of a program on `device` runs."""
    _running.calls.append((target, device, where))
    try:
        yield
    finally:
        _running.calls.pop()


def check(device: str, program: str) -> None:
    """Raises CustomCallError when a program is about to start on a device that waits for the custom call it is in."""
    for target, busy, where in _running.calls:
        if busy == device:
            raise CustomCallError(
                f"custom call {target!r} runs the program {program} on the {device}, which waits for that call",
                where=where,
                hint="compute it in the kernel, on another device, or in the program that makes the call",
            )
