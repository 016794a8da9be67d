"""What the run time calls of the driver: a row per entry point, as the driver's header declares it.

Types are letters: `i` int and enumerations (32 bits), `u` unsigned int, `b` unsigned char, `Z` size_t, `Q` unsigned
long long, `P` void* and all handles and pointers, `D` CUdeviceptr (64 bits). All of them return a CUresult.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

ENTRY_POINTS = {
    "cuInit": "u",
    "cuDriverGetVersion": "P",
    # devices and contexts
    "cuDeviceGetCount": "P",
    "cuDeviceGet": "P i",
    "cuDeviceGetName": "P i i",
    "cuDeviceGetAttribute": "P i i",
    "cuDeviceTotalMem_v2": "P i",
    "cuDeviceGetDefaultMemPool": "P i",
    "cuDeviceCanAccessPeer": "P i i",
    "cuDevicePrimaryCtxRetain": "P i",
    "cuDevicePrimaryCtxRelease_v2": "i",
    "cuCtxPushCurrent_v2": "P",
    "cuCtxPopCurrent_v2": "P",
    "cuCtxSynchronize": "",
    # streams and events
    "cuStreamCreate": "P u",
    "cuStreamDestroy_v2": "P",
    "cuStreamSynchronize": "P",
    "cuStreamWaitEvent": "P P u",
    "cuEventCreate": "P u",
    "cuEventDestroy_v2": "P",
    "cuEventRecord": "P P",
    "cuEventQuery": "P",
    "cuEventSynchronize": "P",
    "cuEventElapsedTime": "P P P",
    "cuLaunchHostFunc": "P P P",
    # memory
    "cuMemAllocAsync": "P Z P",
    "cuMemFreeAsync": "D P",
    "cuMemPoolSetAttribute": "P i P",
    "cuMemPoolGetAttribute": "P i P",
    "cuMemGetInfo_v2": "P P",
    "cuMemHostAlloc": "P Z u",
    "cuMemFreeHost": "P",
    "cuMemcpyHtoDAsync_v2": "D P Z P",
    "cuMemcpyDtoHAsync_v2": "P D Z P",
    "cuMemcpyDtoDAsync_v2": "D D Z P",
    "cuMemsetD8Async": "D b Z P",
    "cuMemcpyPeerAsync": "D P D P Z P",
    # modules and launches
    "cuModuleLoadDataEx": "P P u P P",
    "cuModuleUnload": "P",
    "cuModuleGetFunction": "P P P",
    "cuFuncSetAttribute": "P i i",
    "cuLaunchKernel": "P u u u u u u u P P P",
    # graphs
    "cuStreamBeginCapture_v2": "P i",
    "cuStreamEndCapture": "P P",
    "cuGraphInstantiateWithFlags": "P P Q",
    "cuGraphLaunch": "P P",
    "cuGraphExecDestroy": "P",
    "cuGraphDestroy": "P",
    "cuGraphCreate": "P u",
}
CONDITIONAL_NODES = {
    "cuGraphAddNode": "P P P Z P",
    "cuGraphConditionalHandleCreate": "P P P u u",
    "cuStreamBeginCaptureToGraph": "P P P P Z i",
    "cuStreamGetCaptureInfo_v2": "P P P P P P",
}
"""Of CUDA 12.4: older drivers have not all of them."""

# CUdevice_attribute
MULTIPROCESSOR_COUNT, MAJOR, MINOR, HAS_MEMORY_POOLS = 16, 75, 76, 115
# CUmemPool_attribute
RELEASE_THRESHOLD, RESERVED, RESERVED_HIGH, USED, USED_HIGH = 4, 5, 6, 7, 8
# CUstream_flags, CUevent_flags, CUstreamCaptureMode, CUfunction_attribute
NON_BLOCKING, DISABLE_TIMING, THREAD_LOCAL, MAX_DYNAMIC_SHARED_BYTES = 1, 2, 1, 8
# CUstreamCaptureStatus
CAPTURE_ACTIVE = 1
# CUjit_option
ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_BYTES = 5, 6

_TYPES: dict[str, Any] = {
    "i": ctypes.c_int,
    "u": ctypes.c_uint,
    "b": ctypes.c_ubyte,
    "Z": ctypes.c_size_t,
    "Q": ctypes.c_ulonglong,
    "P": ctypes.c_void_p,
    "D": ctypes.c_uint64,
}
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
"""CUhostFn."""


@cache
def prototype(name: str) -> Any:
    """ctypes' type of an entry point. Calls let other threads run Python."""
    return ctypes.CFUNCTYPE(
        ctypes.c_int, *[_TYPES[letter] for letter in {**ENTRY_POINTS, **CONDITIONAL_NODES}[name].split()]
    )
