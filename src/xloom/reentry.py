"""Which devices wait for custom calls that this thread is in: what those run must not need the same device."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from xloom.errors import CustomCallError


class _Waiting(threading.local):
    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []


_waiting = _Waiting()


@contextmanager
def device_waits(device: str, target: str, where: str) -> Iterator[None]:
    """While a custom call of a program on `device` runs; `target` and `where` are the call's."""
    _waiting.calls.append((device, target, where))
    try:
        yield
    finally:
        _waiting.calls.pop()


def check_device(device: str, program: str) -> None:
    """Raises CustomCallError when `program` is about to start on a device that waits for the call it is in."""
    for busy, target, where in _waiting.calls:
        if busy == device:
            raise CustomCallError(
                f"custom call {target!r} runs the program {program} on the {device}, which waits for that call",
                where=where,
                hint="compute it in the kernel, on another device, or in the program that makes the call",
            )
