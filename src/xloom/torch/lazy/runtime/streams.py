"""Streams and events, of which the device has one order: programs run as they were started."""

from __future__ import annotations

from typing import Any

import torch

from xloom.torch.lazy.runtime import device_client, execution


class Event(torch.Event):
    """A point in that order. To torch's own streams it is an event that has not been recorded: they do not wait."""

    def __new__(cls, *args: Any, **options: Any) -> Event:
        """One of this device."""
        return super().__new__(cls, device="xla")

    def record(self, stream: Any = None) -> Event:  # type: ignore[override]
        """Here."""
        return self

    def wait(self, stream: Any = None) -> None:
        """What comes later comes later anyway."""

    def query(self) -> bool:
        """Nobody has to wait for it."""
        return True

    def synchronize(self) -> None:
        """Waits for all that was started."""
        execution.flush()
        device_client.wait()


class Stream:
    """The device's only one, by whatever name."""

    def __init__(self, *args: Any, **options: Any):
        pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    def __hash__(self) -> int:
        return hash(Stream)

    def record_event(self, event: Event | None = None) -> Event:
        """A point in its order."""
        return event or Event()

    def wait_event(self, event: Event) -> None:
        """Nothing to wait for."""

    def wait_stream(self, stream: Stream) -> None:
        """Nor here."""

    def query(self) -> bool:
        """Nobody has to wait for it."""
        return True

    def synchronize(self) -> None:
        """Waits for all that was started."""
        Event().synchronize()


def stream(stream: Stream | None) -> Stream:
    """`with torch.xla.stream(s):` changes nothing."""
    return stream or Stream()


def current_stream(device: Any = None) -> Stream:
    """The one."""
    return Stream()


def default_stream(device: Any = None) -> Stream:
    """The one."""
    return Stream()


def set_stream(stream: Stream) -> None:
    """It is."""
