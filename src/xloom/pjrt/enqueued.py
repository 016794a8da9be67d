"""What a device makes that takes its work and does it later: a value is known before it is ready."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from xloom.pjrt.error import as_pjrt
from xloom.pjrt.future import Future


class Completion(Protocol):
    """The end of work that a device was given; a value that it makes has one as `completion`."""

    @property
    def is_reached(self) -> bool:
        """Whether the work has ended, well or not."""
        ...

    @property
    def error(self) -> Exception | None:
        """What went wrong, once it has ended."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until it has ended; False after `timeout` seconds."""
        ...

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Calls it then, in some thread."""
        ...


class Enqueued(Future):
    """Known when its work is given to the device, ready when that has done it."""

    __slots__ = ("_begun", "_completion", "_failure")

    def __init__(self) -> None:
        self.value = None
        self._begun = Future()
        self._completion: Completion | None = None
        self._failure: Exception | None = None

    @staticmethod
    def of(value: Any) -> Future:
        """The future of a value that a device may still be making."""
        if getattr(value, "completion", None) is None:
            return Future.ready(value)
        future = Enqueued()
        future.set(value)
        return future

    def set(self, value: Any = None) -> None:
        """The work is given to the device."""
        self.set_with(value, getattr(value, "completion", None))

    def set_with(self, value: Any, completion: Completion | None) -> None:
        """The same of a value that is there with some other one."""
        self.value, self._completion = value, completion
        self._begun.set()

    def fail(self, error: BaseException) -> None:
        """It never gets so far."""
        self._begun.fail(error)

    @property
    def is_known(self) -> bool:
        """See Future."""
        return self._begun.is_known

    def known(self) -> Any:
        """See Future."""
        self._begun.result()
        return self.value

    def on_known(self, callback: Callable[[Future], None]) -> None:
        """See Future."""
        self._begun.on_ready(lambda _: callback(self))

    @property
    def is_ready(self) -> bool:  # type: ignore[override]
        """Whether the device has done it."""
        begun = self._begun
        return begun.is_ready and (begun.error is not None or self._completion is None or self._completion.is_reached)

    @property
    def error(self) -> BaseException | None:  # type: ignore[override]
        """What went wrong, before the device had the work or in it."""
        if self._begun.error is not None or self._completion is None:
            return self._begun.error
        if self._failure is None and self._completion.error is not None:
            self._failure = as_pjrt(self._completion.error)
        return self._failure

    def wait(self, timeout: float | None = None) -> bool:
        """See Future."""
        if not self._begun.wait(timeout):
            return False
        return self._completion is None or self._completion.wait(timeout)

    def on_ready(self, callback: Callable[[Future], None]) -> None:
        """See Future."""

        def begun(_: Future) -> None:
            if self._completion is None:
                callback(self)
            else:
                self._completion.on_ready(lambda: callback(self))

        self._begun.on_ready(begun)
