"""DLPack to and from arrays of the platform, as far as its memory is the host's."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from xloom.cuda.names import PJRT_PLATFORM

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_BFLOAT16_TYPE = 4 | 16 << 8 | 1 << 16  # DLDataType: the code of bfloat, bits, lanes
_CUDA = 2  # kDLCUDA, in the lower half of DLDevice; the ordinal in the upper one
_UINT16_TYPE = 1 | 16 << 8 | 1 << 16


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("device", ctypes.c_uint64),
        ("rank", ctypes.c_int32),
        ("type", ctypes.c_uint32),
        ("dims", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return (self.type >> 8 & 255) // 8


def _tensor(capsule: Any) -> _Tensor:
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return _Tensor.from_address(pointer(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, b"dltensor"))


class _Shared:
    """An array's memory, which NumPy need not read, for it to lend: it lends no arrays that cannot be written to."""

    def __init__(self, owner: Any, address: int):
        self.owner = owner
        dtype = np.dtype(owner.dtype)
        kind = "<u2" if dtype == _BFLOAT16 else dtype.str
        self.__array_interface__ = {"version": 3, "typestr": kind, "shape": owner.shape, "data": (address, False)}


def _capsule(array: np.ndarray) -> Any:
    return _capsule_at(array, array.__array_interface__["data"][0])


def _capsule_of_gpu(x: Any) -> Any:
    capsule = _capsule_at(x, x.unsafe_buffer_pointer())
    _tensor(capsule).device = _CUDA | _ordinal(x) << 32
    return capsule


def _capsule_at(owner: Any, address: int) -> Any:
    dtype = np.dtype(owner.dtype)
    if dtype.kind == "V" and dtype != _BFLOAT16:
        raise BufferError(f"DLPack has no name for {dtype}")
    capsule = np.asarray(_Shared(owner, address)).__dlpack__()
    if dtype == _BFLOAT16:
        _tensor(capsule).type = _BFLOAT16_TYPE
    return capsule


def _is_of_gpu(capsule: Any) -> bool:
    return _tensor(capsule).device & 0xFFFFFFFF == _CUDA


def _ordinal(x: Any) -> int:
    (device,) = x.devices()
    return device.local_hardware_id


def _alignment(capsule: Any) -> int:
    """The bytes to which an array's memory must be aligned."""
    return max(1, _tensor(capsule).itemsize)


def _is_aligned(capsule: Any) -> bool:
    tensor = _tensor(capsule)
    return (tensor.data + tensor.byte_offset) % _alignment(capsule) == 0


class _Lent:
    """A capsule for NumPy to take, which asks for a method."""

    def __init__(self, capsule: Any):
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the host's memory


def _copy(capsule: Any) -> np.ndarray:
    tensor = _tensor(capsule)
    is_bfloat16 = tensor.type == _BFLOAT16_TYPE
    if is_bfloat16:  # which NumPy does not know
        tensor.type = _UINT16_TYPE
    found = np.from_dlpack(_Lent(capsule)).copy()
    return found.view(_BFLOAT16) if is_bfloat16 else found


def _check_readable(x: Any) -> None:
    """Raises BufferError for an array in memory that the host cannot read."""
    try:
        x.unsafe_buffer_pointer()
    except Exception as error:
        told = str(error).partition("\n")[0]
        if not told.startswith("UNIMPLEMENTED"):
            raise
        raise BufferError(f"DLPack lends no memory that the host cannot read: {told}; np.asarray copies it") from None


def exchange_arrays(platform: str) -> None:
    """Makes JAX lend arrays of the platform; those of the host that it is lent go to whichever platform is first."""
    import jax
    from jax._src import array, dlpack
    from jax._src.lib import _jax  # pyright: ignore[reportPrivateImportUsage]
    from jax._src.typing import DLDeviceType

    lend, place = _jax.buffer_to_dlpack_managed_tensor, array.ArrayImpl.__dlpack_device__
    take = _jax.dlpack_managed_tensor_to_buffer

    def buffer_to_dlpack_managed_tensor(x: Any, *, stream: Any = None) -> Any:
        if x.platform() != platform:
            return lend(x, stream=stream)
        if platform == PJRT_PLATFORM:
            return _capsule_of_gpu(x)
        _check_readable(x)
        return _capsule(np.asarray(x))

    def dlpack_managed_tensor_to_buffer(capsule: Any, device: Any, stream: Any, *rest: Any) -> Any:
        copy = rest[0] if rest else None  # JAX 0.8.0 copies later
        if device.platform == platform:
            if platform == PJRT_PLATFORM and not _is_of_gpu(capsule):
                return jax.device_put(_copy(capsule), device)
            misaligned = not _is_aligned(capsule)
            if misaligned and copy is False:
                # JAX makes its own error of it by these words
                message = f"INVALID_ARGUMENT: the memory is not aligned to {_alignment(capsule)} bytes."
                raise _jax.JaxRuntimeError(message)
            if misaligned or copy:  # which jaxlib does not know how to ask plugins for
                return jax.device_put(_copy(capsule), device)
            try:
                return take(capsule, device, stream, *rest)
            except _jax.JaxRuntimeError as error:
                if copy is False or not str(error).startswith("UNIMPLEMENTED"):
                    raise
            return jax.device_put(_copy(capsule), device)  # the device has memory of its own
        return take(capsule, device, stream, *rest)

    def __dlpack_device__(self: Any) -> Any:
        if self.platform() == platform and len(self._arrays) == 1:
            if platform == PJRT_PLATFORM:
                return DLDeviceType.kDLCUDA, _ordinal(self)
            _check_readable(self)
            return DLDeviceType.kDLCPU, 0
        return place(self)

    _jax.buffer_to_dlpack_managed_tensor = buffer_to_dlpack_managed_tensor
    _jax.dlpack_managed_tensor_to_buffer = dlpack_managed_tensor_to_buffer
    array.ArrayImpl.__dlpack_device__ = __dlpack_device__
    order = str(getattr(jax.config, "jax_platforms")).split(",")  # noqa: B009 - made at run time
    if platform in order and ("cpu" not in order or order.index(platform) < order.index("cpu")):
        lending = DLDeviceType.kDLCUDA if platform == PJRT_PLATFORM else DLDeviceType.kDLCPU
        dlpack._DL_DEVICE_TO_PLATFORM[lending] = platform
