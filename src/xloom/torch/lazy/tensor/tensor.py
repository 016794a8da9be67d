"""The tensor of the device `xla`: a shape for torch to see, and an alias that holds its value."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch._utils import _rebuild_parameter, _rebuild_tensor_v2
from torch.utils.backend_registration import rename_privateuse1_backend

from xloom.errors import UnsupportedError
from xloom.torch.lazy.recording import log
from xloom.torch.lazy.recording.table import HANDLERS, handler_of
from xloom.torch.lazy.recording.trace import Value
from xloom.torch.lazy.runtime import device_client
from xloom.torch.lazy.tensor.array_type import ArrayType
from xloom.torch.lazy.tensor.storage import Alias, Storage

rename_privateuse1_backend("xla")  # before anybody can ask for the device
DEVICE = torch.device("xla", 0)


class XlaTensor(torch.Tensor):
    """A tensor on the device."""

    __slots__ = ("_alias",)
    _alias: Alias

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        if len(types) > 1 and not all(issubclass(each, XlaTensor) for each in types):
            return NotImplemented  # another class of tensors, perhaps around this one, knows what to do
        handler = HANDLERS.get(id(func))  # by identity: hashing an operator calls Python
        if handler is None:
            handler = handler_of(func)
        if log.on:
            log.dispatched(func, handler)
        return handler(args, kwargs)

    def __coerce_same_metadata_as_tangent__(self, expected_metadata: Any, expected_type: Any = None) -> torch.Tensor:
        """Itself: what AOTAutograd takes for torch's own tensor is one of the device (runtime/dynamo.py)."""
        return self

    @property
    def is_xla(self) -> bool:  # type: ignore[override]
        """True: it is on the device `xla`."""
        return True

    @property
    def data(self) -> torch.Tensor:  # type: ignore[override]
        """The tensor without its history; set it to hold what another one holds."""
        return torch.Tensor.data.__get__(self)  # type: ignore[attr-defined]

    @data.setter
    def data(self, new: torch.Tensor) -> None:
        if not isinstance(new, XlaTensor):
            raise TypeError(f"data of a tensor on {self.device} cannot be set to one on {new.device}")
        set_alias(self, new)

    def data_ptr(self) -> int:
        """Where it begins, as a number that tensors have in common if they begin at the same place of one memory."""
        return self._alias.storage.address + int(self.storage_offset()) * self.itemsize if self.numel() else 0

    def untyped_storage(self) -> Any:
        """Its memory, as far as one can speak of it: which it is, and how large."""
        return DeviceMemory(self._alias.storage)

    def record_stream(self, stream: Any) -> None:  # type: ignore[override]
        """Nothing to note: the device has one order, in which memory is given back after all that uses it."""

    def tolist(self) -> Any:
        """The elements as Python numbers. Waits for them."""
        return self.detach().cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """The elements as an array, if `force` allows what that takes: a copy on the host."""
        if not force:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
                "memory first."
            )
        return self.detach().cpu().numpy()

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        first, *rest = super().__repr__(tensor_contents=tensor_contents).split("\n")
        prefix = type(self).__name__
        if not first.startswith(prefix):  # a parameter's begins with its class
            return "\n".join([first, *rest])
        indent = len(prefix) - len("tensor")
        return "\n".join(["tensor" + first.removeprefix(prefix), *[line[indent:] for line in rest]])

    def __format__(self, format_spec: str) -> str:
        # torch's own does so for no subclass
        return format(self.detach().item(), format_spec) if self.dim() == 0 else super().__format__(format_spec)

    def __copy__(self) -> torch.Tensor:
        copy = tensor_on(self._alias, int(self.storage_offset()))
        _take_attributes(copy, self)
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError("only tensors that a user made (leaves of the graph) can be copied with deepcopy")
        is_parameter = getattr(self, "_is_param", False)  # those of torch's are copied alone, and without a gradient
        copy = self.detach().clone() if is_parameter else _in_copied_memory(self, memo)
        _take_attributes(copy, self)
        memo[id(self)] = copy
        if self.grad is not None and not is_parameter:
            copy.grad = deepcopy(self.grad, memo)
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        # as torch's own parameters and tensors are written, so that torch.load's safe mode reads them
        if getattr(self, "_is_param", False):
            return _rebuild_parameter, (self.detach(), self.requires_grad, OrderedDict())
        alias = self._alias
        of_its_elements = not alias.through and alias.type.dtype == alias.storage.type.dtype
        written = self if of_its_elements else self.detach().clone()
        memory = torch.storage.TypedStorage(wrap_storage=written.untyped_storage(), dtype=self.dtype, _internal=True)
        geometry = int(written.storage_offset()), tuple(self.shape), written.stride()
        return _rebuild_tensor_v2, (memory, *geometry, self.requires_grad, OrderedDict())


def _take_attributes(copy: torch.Tensor, source: torch.Tensor) -> None:
    copy.requires_grad_(source.requires_grad)
    for name, value in source.__dict__.items():
        setattr(copy, name, value)


def _in_copied_memory(tensor: XlaTensor, memo: dict[Any, Any]) -> torch.Tensor:
    """A copy that shares memory with the copies of those that the tensor shares its own with."""
    alias = tensor._alias
    storage = alias.storage
    if alias.through or alias.type.dtype != storage.type.dtype:
        return tensor.detach().clone()
    copies = memo.setdefault("xloom", {})
    if storage not in copies:
        copies[storage] = tensor_on(storage).clone()
    memory: XlaTensor = copies[storage]
    if alias is storage:
        return memory.detach()
    geometry = tensor.storage_offset(), tensor.shape, tensor.stride()
    return tensor.new_empty(0).set_(memory.untyped_storage(), *geometry)


class DeviceMemory(torch.UntypedStorage):
    """What `untyped_storage` gives for a tensor of the device: how large it is, and which."""

    device = DEVICE
    is_xla = True

    _storage: Storage

    def __new__(cls, storage: Storage) -> DeviceMemory:
        """The one of a storage."""
        nbytes = 0 if storage.is_given_back else storage.type.nbytes
        memory = super().__new__(cls, nbytes, device="meta")  # type: ignore[call-arg]
        memory._storage = storage
        return memory

    def resize_(self, size: int) -> DeviceMemory:  # type: ignore[override]
        """Gives it back, with 0 bytes; takes it again, with all."""
        storage = self._storage
        if size == self.nbytes():
            return self
        if size == 0:
            storage.give_back()
        elif storage.is_given_back and size == storage.type.nbytes:
            storage.take_again(partial(device_client.zeros, storage.type.row_major))
        else:
            raise UnsupportedError(
                f"memory of {storage.type.nbytes} bytes on {DEVICE} made {size} bytes large",
                hint="it can have none, and as many as before; resize_ of a tensor makes it larger",
            )
        super().resize_(size)
        return self

    def __eq__(self, other: object) -> bool:
        """Whether it is the same memory, however often it was asked for."""
        return isinstance(other, DeviceMemory) and other._storage is self._storage

    def __hash__(self) -> int:
        return hash(self._storage)

    @property
    def _cdata(self) -> int:  # type: ignore[override]
        """What files and copies tell it from other memory by, each time that it is asked for."""
        return self.data_ptr()

    def data_ptr(self) -> int:
        """A number that tells it from other memory."""
        return self._storage.address

    def cpu(self) -> torch.UntypedStorage:
        """A copy of its bytes on the host. Waits for them."""
        storage = self._storage
        return torch.UntypedStorage(0) if storage.is_given_back else tensor_on(storage).cpu().untyped_storage()

    def is_pinned(self, device: Any = None) -> bool:
        """No: it is not the host's."""
        return False

    def clone(self) -> Any:
        """A copy on the device."""
        return tensor_on(self._storage).clone().untyped_storage()

    def fill_(self, value: int) -> DeviceMemory:  # type: ignore[override]
        """Has that byte everywhere."""
        return self._changed(lambda host: host.fill_(value))  # type: ignore[attr-defined]

    def copy_(self, source: Any, non_blocking: Any = None) -> DeviceMemory:  # type: ignore[override]
        """Has the bytes of another storage."""
        return self._changed(lambda host: host.copy_(source.cpu()))

    def __setitem__(self, where: Any, value: int) -> None:
        self._changed(lambda host: host.__setitem__(where, value))

    def __getitem__(self, where: Any) -> Any:
        return self.cpu()[where]

    def __iter__(self) -> Iterator[int]:
        return iter(self.cpu())

    def __reduce__(self) -> Any:
        """To another process; files have it by other means."""
        return _on_device, (self.cpu(),)

    def _write_file(self, *arguments: Any) -> None:
        self.cpu()._write_file(*arguments)  # type: ignore[attr-defined]

    def _changed(self, change: Callable[[torch.UntypedStorage], Any]) -> DeviceMemory:
        host, type = self.cpu(), self._storage.type
        change(host)
        elements = torch.empty(0, dtype=type.dtype, device="cpu").set_(host)
        tensor_on(self._storage).copy_(elements.as_strided(type.dims, type.strides))
        return self

    def of_dtype(self, dtype: torch.dtype) -> Storage:
        """The memory, for a tensor of a dtype."""
        return self._storage


def _on_device(host: torch.UntypedStorage) -> torch.UntypedStorage:
    return host.to(device=DEVICE)


def memory_of(storage: torch.UntypedStorage, dtype: torch.dtype) -> Storage:
    """What `untyped_storage` has given away, for a tensor of a dtype."""
    if not isinstance(storage, DeviceMemory):
        raise RuntimeError(f"storage of {storage.device} is no memory of {DEVICE}")
    return storage.of_dtype(dtype)


_make = torch.Tensor._make_wrapper_subclass  # type: ignore[attr-defined]
_STRIDED = torch.strided
# its arguments are given by position, which takes a fifth less time: class, sizes, strides, offset, memory format, ...


def tensor_of(value: Value) -> XlaTensor:
    """A new tensor in memory of its own, in the order of the value's type."""
    type = value.type
    strides = None if type.row_major is type else type.strides
    tensor = _make(XlaTensor, type.dims, strides, None, None, type.dtype, _STRIDED, DEVICE)
    tensor._alias = Storage(type, value)
    return tensor


def tensor_on(alias: Alias, offset: int = 0) -> XlaTensor:
    """A new tensor over memory that others may share."""
    type: ArrayType = alias.type
    strides = type.strides if offset or type.row_major is not type else None  # None takes a third less time
    tensor = _make(XlaTensor, type.dims, strides, offset or None, None, type.dtype, _STRIDED, DEVICE)
    tensor._alias = alias
    return tensor


def set_alias(tensor: XlaTensor, like: XlaTensor) -> None:
    """Makes a tensor have the shape, strides and memory of another one, as squeeze_ and resize_ do."""
    torch.Tensor.data.__set__(tensor, like)  # type: ignore[attr-defined]
    tensor._alias = like._alias
