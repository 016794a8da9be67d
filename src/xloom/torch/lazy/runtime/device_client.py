"""The PJRT client behind the device, and how tensors of the host get there and back."""

from __future__ import annotations

from collections import deque
from ctypes import memmove
from functools import lru_cache

import numpy as np
import torch

from xloom.cuda.names import PJRT_PLATFORM
from xloom.environment import PJRT_DEVICE
from xloom.errors import UnsupportedError
from xloom.hlo.dtype import from_numpy
from xloom.hlo.shape import Shape, array_shape
from xloom.pjrt import Buffer, Client, Future
from xloom.torch.arrays import over
from xloom.torch.lazy.recording.trace import Value
from xloom.torch.lazy.runtime import held_memory
from xloom.torch.lazy.tensor.array_type import ArrayType, array_type
from xloom.torch.metrics import METRICS

_GPU = ("CUDA", "GPU")
"""What torch_xla calls NVIDIA's GPUs."""

AHEAD = 4
"""How many programs may wait or run before the next one is recorded."""

_running: deque[Future] = deque()


_clients: list[Client] = []


def client() -> Client:
    """The client, made when it is first used. Raises UnsupportedError where PJRT_DEVICE asks for a GPU in vain."""
    if not _clients:
        _clients.append(Client.cuda(1) if PJRT_DEVICE.text.upper() in _GPU else Client.cpu())
    return _clients[-1]


def hardware() -> str:
    """What runs programs, by torch_xla's names."""
    return "CUDA" if client().platform_name == PJRT_PLATFORM else "CPU"


def is_host() -> bool:
    """Whether its memory is the host's."""
    return client().addressable_devices[0].default_memory.is_host


def use(new: Client) -> None:
    """Has what comes run on another client, whose memory is the same."""
    _clients.append(new)


def use_backend(new: Client) -> None:
    """Makes the device `xla` that of a client of one's own. Raises UnsupportedError once there are tensors on it."""
    if _clients:
        raise UnsupportedError(
            "the device xla is in use already", hint="call xloom.torch.use_backend before anything goes to the device"
        )
    use(new)


def to_device(tensor: torch.Tensor) -> Value:
    """A copy of a tensor of the host: that one may change afterwards."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    type = array_type(tensor.dtype, tuple(tensor.shape))
    METRICS.transfers += 1
    METRICS.bytes_to_device += type.nbytes
    buffer = client().buffer_from_host(over(tensor))
    held_memory.hold(type, buffer)
    return Value(type, buffer)


def zeros(type: ArrayType) -> Value:
    """Zeros that no program makes."""
    buffer = on_device(np.zeros(type.dims, type.shape.dtype.numpy))
    held_memory.hold(type, buffer)
    return Value(type, buffer)


def on_device(array: np.ndarray) -> Buffer:
    """A read-only array."""
    memory = client().addressable_devices[0].default_memory
    return Buffer(_shape(array.dtype, array.shape), memory, Future.ready(memory.put(array)))


@lru_cache(maxsize=1024)
def _shape(dtype: np.dtype, dims: tuple[int, ...]) -> Shape:
    return array_shape(from_numpy(dtype), dims)


def to_host(value: Value) -> torch.Tensor:
    """A copy of a value of which the buffer is known, on the host. Waits for it."""
    return _copied(_array(value), value.type.dtype)


def part_to_host(value: Value, memory: ArrayType, part: ArrayType, offset: int) -> torch.Tensor:
    """The same, of what a part of the memory is that has this value."""
    flat = _array(value).transpose(memory.order).reshape(-1)[offset:]
    steps = [stride * flat.itemsize for stride in part.strides]
    return _copied(np.ndarray(part.dims, flat.dtype, flat.view(np.uint8), 0, steps), value.type.dtype)


def number(value: Value) -> bool | int | float | complex:
    """The only element of a value of which the buffer is known. Waits for it."""
    array = _array(value)
    METRICS.bytes_to_host += array.nbytes
    return float(array.item()) if value.type.dtype.is_floating_point else array.item()


def _array(value: Value) -> np.ndarray:
    assert value.buffer is not None
    METRICS.waits += 1
    return value.buffer.to_host()


def _copied(array: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    METRICS.bytes_to_host += array.nbytes
    copy = torch.empty(array.shape, dtype=dtype, device="cpu")  # whatever the default device is
    if array.flags.c_contiguous:
        memmove(copy.data_ptr(), array.__array_interface__["data"][0], array.nbytes)
    else:
        over(copy)[...] = array
    return copy


def throttle(done: Future) -> None:
    """Waits until no more than AHEAD programs are under way, this one included: their results take memory."""
    _running.append(done)
    while len(_running) > AHEAD:
        _running.popleft().wait()


def wait() -> None:
    """Until all that was started has ended."""
    while _running:
        _running.popleft().wait()
