"""DLPack to and from arrays of the platform, whose memory is the host's."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_BFLOAT16_TYPE = 4 | 16 << 8 | 1 << 16  # DLDataType: the code of bfloat, bits, lanes
_TYPE_OFFSET = 20  # in DLTensor


class _Shared:
    """An array's memory for NumPy to lend, which it does not do with arrays that cannot be written to."""

    def __init__(self, array: np.ndarray):
        self.owner = array
        kind = "<u2" if array.dtype == _BFLOAT16 else array.dtype.str
        address = array.__array_interface__["data"][0]
        self.__array_interface__ = {"version": 3, "typestr": kind, "shape": array.shape, "data": (address, False)}


def _capsule(array: np.ndarray) -> Any:
    if array.dtype.kind == "V" and array.dtype != _BFLOAT16:
        raise BufferError(f"DLPack has no name for {array.dtype}")
    capsule = np.asarray(_Shared(array)).__dlpack__()
    if array.dtype == _BFLOAT16:
        pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
        tensor = pointer(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, b"dltensor")
        ctypes.c_uint32.from_address(tensor + _TYPE_OFFSET).value = _BFLOAT16_TYPE
    return capsule


def exchange_arrays(platform: str) -> None:
    """Makes JAX lend arrays of the platform; those of the host that it is lent go to whichever platform is first."""
    import jax
    from jax._src import array, dlpack
    from jax._src.lib import _jax  # pyright: ignore[reportPrivateImportUsage]
    from jax._src.typing import DLDeviceType

    lend, place = _jax.buffer_to_dlpack_managed_tensor, array.ArrayImpl.__dlpack_device__

    def buffer_to_dlpack_managed_tensor(x: Any, *, stream: Any = None) -> Any:
        return _capsule(np.asarray(x)) if x.platform() == platform else lend(x, stream=stream)

    def __dlpack_device__(self: Any) -> Any:
        if self.platform() == platform and len(self._arrays) == 1:
            return DLDeviceType.kDLCPU, 0
        return place(self)

    _jax.buffer_to_dlpack_managed_tensor = buffer_to_dlpack_managed_tensor
    array.ArrayImpl.__dlpack_device__ = __dlpack_device__
    order = str(getattr(jax.config, "jax_platforms")).split(",")  # noqa: B009 - made at run time
    if "cpu" not in order or order.index(platform) < order.index("cpu"):
        dlpack._DL_DEVICE_TO_PLATFORM[DLDeviceType.kDLCPU] = platform
