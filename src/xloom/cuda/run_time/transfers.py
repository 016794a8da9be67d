"""Arrays from host to device, back, and between devices; each in a stream of its own, beside what computes."""

from __future__ import annotations

import numpy as np

from xloom.cuda.run_time.arrays import CudaArray
from xloom.cuda.run_time.device import CudaDevice


def to_device(array: np.ndarray, device: CudaDevice) -> CudaArray:
    """A copy of an array of the host, which the caller may change at once. Raises OutOfMemoryError."""
    with device:
        staged = device.pinned.copied(array)
        block = device.memory.allocate(array.nbytes)
        if not array.nbytes:
            return CudaArray(device, block, array.shape, array.dtype)
        device.follow(device.upload, device.record(device.compute))  # the memory may have been another array's
        device.driver.call("cuMemcpyHtoDAsync_v2", block.pointer, staged.ctypes.data, array.nbytes, device.upload)
        done = device.record(device.upload, "a copy to the device", (staged, block))
        return CudaArray(device, block, array.shape, array.dtype, done)


def to_host(array: CudaArray) -> np.ndarray:
    """A copy of an array, once it is there, in pinned memory. Raises DriverError for what went wrong on its way."""
    device = array.device
    with device:
        out = device.pinned.array(array.nbytes).view(array.dtype).reshape(array.shape)
        if not array.nbytes:
            return out
        device.follow(device.download, array.completion)
        device.driver.call("cuMemcpyDtoHAsync_v2", out.ctypes.data, array.pointer, array.nbytes, device.download)
        done = device.record(device.download, "a copy to the host", (out, array))
    done.wait()
    if done.error is not None:
        raise done.error
    return out


def copied(array: CudaArray, device: CudaDevice) -> CudaArray:
    """A copy on a device, the same or another. Raises OutOfMemoryError."""
    source = array.device
    with device:
        block = device.memory.allocate(array.nbytes)
        if not array.nbytes:
            return CudaArray(device, block, array.shape, array.dtype)
        device.follow(device.upload, device.record(device.compute))
        device.follow(device.upload, array.completion)
        if source is device:
            given = block.pointer, array.pointer, array.nbytes, device.upload
            device.driver.call("cuMemcpyDtoDAsync_v2", *given)
        else:
            given = block.pointer, device.context, array.pointer, source.context, array.nbytes, device.upload
            device.driver.call("cuMemcpyPeerAsync", *given)
        done = device.record(device.upload, "a copy between devices", (array, block))
        return CudaArray(device, block, array.shape, array.dtype, done)
