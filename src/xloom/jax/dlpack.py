"""DLPack to and from arrays of the platform, in memory of the host's or of a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from xloom.cuda.names import PJRT_PLATFORM

_CPU, _CUDA = 1, 2  # kDLCPU and kDLCUDA, in the lower half of DLDevice; the ordinal in the upper one
_UNSIGNED = 1  # kDLUInt
_CODES = {  # DLDataTypeCode of the types that NumPy has no name for
    np.dtype(ml_dtypes.bfloat16): 4,
    np.dtype(ml_dtypes.float8_e3m4): 7,
    np.dtype(ml_dtypes.float8_e4m3): 8,
    np.dtype(ml_dtypes.float8_e4m3b11fnuz): 9,
    np.dtype(ml_dtypes.float8_e4m3fn): 10,
    np.dtype(ml_dtypes.float8_e4m3fnuz): 11,
    np.dtype(ml_dtypes.float8_e5m2): 12,
    np.dtype(ml_dtypes.float8_e5m2fnuz): 13,
    np.dtype(ml_dtypes.float8_e8m0fnu): 14,
}
_XLA_ALIGNMENT = 64  # of bytes, which XLA:CPU wants of memory that it is lent


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


def _type(code: int, dtype: np.dtype) -> int:
    """DLDataType: the code, bits, and one lane."""
    return code | dtype.itemsize * 8 << 8 | 1 << 16


_DTYPES = {_type(code, dtype): dtype for dtype, code in _CODES.items()}


def _tensor(capsule: Any) -> _Tensor:
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return _Tensor.from_address(pointer(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, b"dltensor"))


class _Shared:
    """An array's memory, which NumPy need not read, for it to lend: it lends no arrays that cannot be written to."""

    def __init__(self, owner: Any, address: int):
        self.owner = owner
        dtype = np.dtype(owner.dtype)
        kind = f"<u{dtype.itemsize}" if dtype in _CODES else dtype.str
        self.__array_interface__ = {"version": 3, "typestr": kind, "shape": owner.shape, "data": (address, False)}


def _capsule(array: np.ndarray) -> Any:
    return _capsule_at(array, array.__array_interface__["data"][0])


def _capsule_at(owner: Any, address: int) -> Any:
    dtype = np.dtype(owner.dtype)
    code = _CODES.get(dtype)
    if code is None and dtype.kind == "V":
        from jax.errors import JaxRuntimeError

        raise JaxRuntimeError(
            f"UNIMPLEMENTED: DLPack has no name for {dtype}; astype makes an array of a type that it has"
        )
    capsule = np.asarray(_Shared(owner, address)).__dlpack__()
    if code is not None:
        _tensor(capsule).type = _type(code, dtype)
    return capsule


def _alignment(capsule: Any) -> int:
    """The bytes to which an array's memory must be aligned."""
    return max(1, _tensor(capsule).itemsize)


def _is_aligned(capsule: Any, alignment: int) -> bool:
    tensor = _tensor(capsule)
    return (tensor.data + tensor.byte_offset) % alignment == 0


class _Lent:
    """A capsule for NumPy to take, which asks for a method."""

    def __init__(self, capsule: Any):
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0


def _copy(capsule: Any) -> np.ndarray:
    tensor = _tensor(capsule)
    unnamed = _DTYPES.get(tensor.type)
    if unnamed is not None:
        tensor.type = _type(_UNSIGNED, unnamed)
    found = np.from_dlpack(_Lent(capsule)).copy()
    return found if unnamed is None else found.view(unnamed)


def _check_readable(x: Any) -> None:
    """Raises BufferError for an array in memory that the host cannot read."""
    try:
        x.unsafe_buffer_pointer()
    except Exception as error:
        told = str(error).partition("\n")[0]
        if not told.startswith("UNIMPLEMENTED"):
            raise
        raise BufferError(f"DLPack lends no memory that the host cannot read: {told}; np.asarray copies it") from None


class _HostMemory:
    """Where a platform's arrays are that the host reads."""

    kind = _CPU

    def place(self, x: Any) -> tuple[int, int]:
        """The device of an array, as DLPack names it. Raises BufferError where the host cannot read it."""
        _check_readable(x)
        return self.kind, 0

    def capsule(self, x: Any) -> Any:
        """Lends an array. Raises BufferError if the host cannot read it, JaxRuntimeError for types DLPack lacks."""
        _check_readable(x)
        return _capsule(np.asarray(x))

    def has(self, capsule: Any) -> bool:
        """Whether arrays of the platform may be where a lent one is."""
        return True

    def copied(self, capsule: Any, take: Callable[[], Any]) -> Any:
        """A copy of a lent array, which `take` would make one of JAX's."""
        return _copy(capsule)


class _GpuMemory:
    """Where the arrays of xloom_cuda are."""

    kind = _CUDA

    def place(self, x: Any) -> tuple[int, int]:
        """See _HostMemory."""
        (device,) = x.devices()
        return self.kind, device.local_hardware_id

    def capsule(self, x: Any) -> Any:
        """See _HostMemory."""
        capsule = _capsule_at(x, x.unsafe_buffer_pointer())
        kind, ordinal = self.place(x)
        _tensor(capsule).device = kind | ordinal << 32
        return capsule

    def has(self, capsule: Any) -> bool:
        """See _HostMemory."""
        return _tensor(capsule).device & 0xFFFFFFFF == self.kind

    def copied(self, capsule: Any, take: Callable[[], Any]) -> Any:
        """See _HostMemory. The host cannot read it."""
        import jax.numpy as jnp

        return jnp.array(take(), copy=True)


def exchange_arrays(platform: str) -> None:
    """Makes JAX lend arrays of the platform; those of the host that it is lent go to whichever platform is first."""
    import jax
    from jax._src import array, dlpack
    from jax._src.lib import _jax  # pyright: ignore[reportPrivateImportUsage]
    from jax._src.typing import DLDeviceType

    memory = _GpuMemory() if platform == PJRT_PLATFORM else _HostMemory()
    lend, place = _jax.buffer_to_dlpack_managed_tensor, array.ArrayImpl.__dlpack_device__
    take = _jax.dlpack_managed_tensor_to_buffer

    def buffer_to_dlpack_managed_tensor(x: Any, *, stream: Any = None) -> Any:
        if x.platform() != platform:
            return lend(x, stream=stream)
        return memory.capsule(x)

    def dlpack_managed_tensor_to_buffer(capsule: Any, device: Any, stream: Any, *rest: Any) -> Any:
        copy = rest[0] if rest else None  # JAX 0.8.0 copies later
        if device.platform == platform:
            if not memory.has(capsule):
                return jax.device_put(_copy(capsule), device)
            alignment = _alignment(capsule)
            if copy is False and platform == "cpu":
                alignment = max(alignment, _XLA_ALIGNMENT)  # what jaxlib's CPU refuses is refused in its place
            misaligned = not _is_aligned(capsule, alignment)
            if misaligned and copy is False:
                # JAX makes its own error of it by these words
                message = f"INVALID_ARGUMENT: the memory is not aligned to {alignment} bytes."
                raise _jax.JaxRuntimeError(message)
            if misaligned or copy:  # which jaxlib does not know how to ask plugins for
                given = [None] * len(rest)
                return jax.device_put(memory.copied(capsule, lambda: take(capsule, device, stream, *given)), device)
            try:
                return take(capsule, device, stream, *rest)
            except _jax.JaxRuntimeError as error:
                # strides are refused by jaxlib's CPU, and so in its place
                is_refused = copy is False or (platform == "cpu" and "striding" in str(error))
                if is_refused or not str(error).startswith("UNIMPLEMENTED"):
                    raise
            return jax.device_put(_copy(capsule), device)  # the device has memory of its own
        return take(capsule, device, stream, *rest)

    def __dlpack_device__(self: Any) -> Any:
        if self.platform() == platform and len(self._arrays) == 1:
            kind, ordinal = memory.place(self)
            return DLDeviceType(kind), ordinal
        return place(self)

    _jax.buffer_to_dlpack_managed_tensor = buffer_to_dlpack_managed_tensor
    _jax.dlpack_managed_tensor_to_buffer = dlpack_managed_tensor_to_buffer
    array.ArrayImpl.__dlpack_device__ = __dlpack_device__
    order = str(getattr(jax.config, "jax_platforms")).split(",")  # noqa: B009 - made at run time
    if platform in order and ("cpu" not in order or order.index(platform) < order.index("cpu")):
        dlpack._DL_DEVICE_TO_PLATFORM[DLDeviceType(memory.kind)] = platform
