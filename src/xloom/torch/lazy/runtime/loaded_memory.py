"""Memory of the host that goes to the device as bytes: `torch.load(..., map_location="xla")` moves storages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from xloom.torch.lazy.runtime import device_client, device_module
from xloom.torch.lazy.tensor.storage import Storage
from xloom.torch.lazy.tensor.tensor import DEVICE, DeviceMemory


class LoadedMemory(DeviceMemory):
    """A copy of a storage of the host. Which elements it has is known once a tensor is made of it."""

    _host: torch.UntypedStorage
    _made: Storage | None

    def __new__(cls, host: torch.UntypedStorage) -> LoadedMemory:  # type: ignore[misc]
        """Of a storage that is not written to before a tensor is made of it."""
        memory = torch.UntypedStorage.__new__(cls, host.nbytes(), device="meta")  # type: ignore[call-arg]
        memory._host, memory._made = host, None
        return memory

    def data_ptr(self) -> int:
        """A number that tells it from other memory."""
        return id(self) if self._made is None else self._made.address

    def cpu(self) -> torch.UntypedStorage:
        """A copy of its bytes on the host."""
        return self._host.clone() if self._made is None else super().cpu()

    def clone(self) -> Any:
        """A copy on the device."""
        return LoadedMemory(self.cpu())

    def _changed(self, change: Callable[[torch.UntypedStorage], Any]) -> DeviceMemory:
        if self._made is not None:
            return super()._changed(change)
        change(self._host)
        return self

    def _set_from_file(self, *arguments: Any) -> None:
        """Reads its bytes, as pickles have a storage's made before they are there."""
        self._changed(lambda host: host._set_from_file(*arguments))  # type: ignore[attr-defined]

    def of_dtype(self, dtype: torch.dtype) -> Storage:
        """The memory, whose elements are those of the first tensor that is made of it."""
        if self._made is None:
            elements = torch.empty(0, dtype=dtype, device="cpu").set_(self._host)
            value = device_client.to_device(elements)
            self._made = self._storage = Storage(value.type, value)
            del self._host
        return self._made


_to_elsewhere: Any = torch.UntypedStorage.to


def _to(self: torch.UntypedStorage, *, device: Any, non_blocking: bool = False) -> torch.UntypedStorage:
    """The storage on a device: itself if it is there, else a copy."""
    wanted = torch.device(device)
    if isinstance(self, DeviceMemory) and wanted.type != DEVICE.type:
        self = self.cpu()
    if wanted.type != DEVICE.type or isinstance(self, DeviceMemory):
        return _to_elsewhere(self, device=device, non_blocking=non_blocking)
    device_module.check(wanted)
    return LoadedMemory(self.cpu())


_copy_from_elsewhere: Any = torch.UntypedStorage.copy_


def _copy(self: torch.UntypedStorage, source: torch.UntypedStorage, non_blocking: Any = None) -> torch.UntypedStorage:
    """Has the bytes of another storage, on whichever device that is."""
    return _copy_from_elsewhere(self, source.cpu() if isinstance(source, DeviceMemory) else source, non_blocking)


_make: Any = torch.UntypedStorage.__new__


def _new(cls: type, *arguments: Any, device: Any = None, **options: Any) -> torch.UntypedStorage:
    """A storage of so many bytes, or of these."""
    if device is None:
        return _make(cls, *arguments, **options)
    wanted = torch.device(device)
    if wanted.type != DEVICE.type:
        return _make(cls, *arguments, device=device, **options)
    device_module.check(wanted)
    return LoadedMemory(_make(torch.UntypedStorage, *arguments, device="cpu", **options))


def register() -> None:
    """Has storages move, and be made: torch asks for memory that has an address, which would end the process."""
    torch.UntypedStorage.to = _to  # type: ignore[method-assign]
    torch.UntypedStorage.copy_ = _copy  # type: ignore[method-assign]
    torch.UntypedStorage.__new__ = staticmethod(_new)  # type: ignore[method-assign,assignment]
