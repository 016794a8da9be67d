"""An array in a memory of a device, which may not be there yet."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from xloom.errors import DistributedError, XloomError
from xloom.hlo.shape import Shape
from xloom.pjrt.backend_result_checks import checked
from xloom.pjrt.enqueued import Enqueued
from xloom.pjrt.error import PjrtError, invalid
from xloom.pjrt.future import Future
from xloom.trace import span

if TYPE_CHECKING:
    from xloom.pjrt.device import Device
    from xloom.pjrt.memory_space import MemorySpace


class HostBufferSemantics(IntEnum):
    """For how long the host's array may be read after `buffer_from_host` returns."""

    IMMUTABLE_ONLY_DURING_CALL = 0
    IMMUTABLE_UNTIL_TRANSFER_COMPLETES = 1
    IMMUTABLE_ZERO_COPY = 2
    MUTABLE_ZERO_COPY = 3


_references = threading.Lock()


class Buffer:
    """An array in a memory space."""

    __slots__ = ("__weakref__", "_external", "_lent", "is_deleted", "memory_space", "on_delete", "ready", "shape")

    def __init__(self, shape: Shape, memory_space: MemorySpace, ready: Future):
        self.shape = shape
        self.memory_space = memory_space
        self.ready = ready
        """When the array is there, or why it will not be. Its value is the row-major array `shape.in_memory()`."""
        self.is_deleted = False
        self.on_delete: Callable[[], None] | None = None
        """Called once the array is given up."""
        self._external = 0
        self._lent: Future | None = None

    @property
    def on_device_shape(self) -> Shape:
        """The shape with its layout on the device."""
        return self.shape

    @property
    def device(self) -> Device:
        """The device whose memory it is in."""
        return self.memory_space.device

    @property
    def is_shared(self) -> bool:
        """True while the memory is also used outside."""
        return self._external > 0

    @property
    def nbytes(self) -> int:
        """Bytes of the array in memory."""
        return self.shape.nbytes

    def block_until_ready(self) -> Buffer:
        """Waits for the array. Raises what went wrong."""
        self.ready.result()
        return self

    def on_host(self, value: Any) -> np.ndarray:
        """The row-major array that is in memory as `value`. Raises EvaluationError where that is another's."""
        array = self.memory_space.get(value)
        if self.memory_space.is_host:  # checked when it was made
            return array
        return checked(array, self.shape, True, "gave the host {}", str(self.memory_space))

    def to_host(self) -> np.ndarray:
        """A view of the array, once it is there, that cannot be written to. Raises what went wrong."""
        try:
            value = self.ready.known()
        except DistributedError as error:
            error.is_told = True
            raise
        try:
            array = self.on_host(value)
        except XloomError:
            self.ready.result()  # raises what went wrong before, if something did
            raise
        view = logical(array, self.shape).view()
        view.setflags(write=False)
        return view

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        with span("device to host", "transfer", bytes=self.nbytes):
            return np.array(self.to_host(), dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        if not self.memory_space.is_host:
            raise BufferError(f"the host cannot read {self.memory_space}: np.asarray copies what is there")
        return logical(self.on_host(self.ready.result()), self.shape).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU

    def delete(self) -> None:
        """Gives up the array; work that is under way and external references keep it."""
        with _references:
            if self._external and not self.is_deleted:
                self._lent = self.ready
            self.is_deleted = True
            self.ready = _GONE
        if self.on_delete is not None:
            self.on_delete()

    def acquire_external_reference(self) -> None:
        """Keeps the array for one more user outside, until `release_external_reference`."""
        with _references:
            self._external += 1

    def release_external_reference(self) -> None:
        """Ends what `acquire_external_reference` began. Raises PjrtError where nothing did."""
        with _references:
            if not self._external:
                raise invalid(
                    "the buffer has no external reference", "increase the count of references before it is decreased"
                )
            self._external -= 1
            if not self._external:
                self._lent = None

    def copy_to(self, memory_space: MemorySpace) -> Buffer:
        """A copy in another memory, of this device or another."""
        if memory_space.moves_from(self.memory_space):
            return self._moved(memory_space)
        return self._copied(self.shape, memory_space, np.copy)

    def _moved(self, memory_space: MemorySpace) -> Buffer:
        """A copy of what a device has in the memory of one."""
        if self.is_deleted:
            raise deleted()
        future = Enqueued()

        def move(source: Future) -> None:
            try:
                with span("device to device", "transfer", bytes=self.nbytes):
                    future.set(memory_space.moved(source.known(), self.memory_space))
            except Exception as error:  # such as memory that is full
                future.fail(error)

        self.ready.on_known(move)
        return Buffer(self.shape, memory_space, future)

    def laid_out(self, shape: Shape) -> Buffer:
        """A copy in the layout of `shape`."""
        return self._copied(
            shape, self.memory_space, lambda array: physical(logical(array, self.shape), shape, copy=True)
        )

    def _copied(self, shape: Shape, memory_space: MemorySpace, copy: Callable[[np.ndarray], np.ndarray]) -> Buffer:
        if self.is_deleted:
            raise deleted()
        future = Enqueued()

        def transfer(source: Future) -> None:
            if source.error is not None:
                future.fail(source.error)
                return
            try:
                with span("device to device", "transfer", bytes=self.nbytes):
                    future.set(memory_space.put(copy(self.on_host(source.value))))
            except Exception as error:  # such as memory that is full
                future.fail(error)

        self.ready.on_ready(transfer)
        return Buffer(shape, memory_space, future)

    def __repr__(self) -> str:
        state = "deleted" if self.is_deleted else "ready" if self.ready.is_ready else "pending"
        return f"Buffer({self.shape}, {self.memory_space}, {state})"


class _Gone(Future):
    """What is left of a deleted buffer's array: an error, another one for each who asks."""

    __slots__ = ()

    def __init__(self) -> None:
        self.is_ready, self.value, self._callbacks = True, None, None

    @property
    def error(self) -> PjrtError:  # type: ignore[override]
        """That it is deleted."""
        return deleted()


_GONE = _Gone()


def physical(array: np.ndarray, shape: Shape, *, copy: bool = False) -> np.ndarray:
    """The row-major array that lies in memory as `array` does in the layout of `shape`."""
    lying = array.transpose(shape.major_to_minor) if shape.is_permuted else array
    return np.array(lying, order="C") if copy else np.asarray(lying, order="C")


def logical(array: np.ndarray, shape: Shape) -> np.ndarray:
    """The array of that shape which lies in memory as the row-major `array` does."""
    return array.transpose(np.argsort(shape.major_to_minor)) if shape.is_permuted else array


def deleted() -> PjrtError:
    """The error for who uses a buffer that was deleted or donated."""
    return invalid(
        "Buffer has been deleted or donated.", "copy it before it is donated, or use the result that lies there now"
    )
