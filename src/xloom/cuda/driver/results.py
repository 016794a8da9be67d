"""What the driver's calls return: CUresult by name, and which error that is."""

from __future__ import annotations

from xloom.errors import XloomError
from xloom.status_code import Code

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, DEINITIALIZED = range(5)
NO_DEVICE, INVALID_DEVICE = 100, 101
INVALID_IMAGE, INVALID_CONTEXT, NO_BINARY_FOR_GPU = 200, 201, 209
INVALID_HANDLE, NOT_FOUND, NOT_READY, ILLEGAL_ADDRESS, LAUNCH_FAILED = 400, 500, 600, 700, 719
NOT_PERMITTED, STREAM_CAPTURE_UNSUPPORTED, STREAM_CAPTURE_UNMATCHED, UNKNOWN = 800, 900, 903, 999
"""CUresult, as the driver's header numbers it."""

NAMES = {
    0: "SUCCESS",
    1: "INVALID_VALUE",
    2: "OUT_OF_MEMORY",
    3: "NOT_INITIALIZED",
    4: "DEINITIALIZED",
    34: "STUB_LIBRARY",
    46: "DEVICE_UNAVAILABLE",
    100: "NO_DEVICE",
    101: "INVALID_DEVICE",
    102: "DEVICE_NOT_LICENSED",
    200: "INVALID_IMAGE",
    201: "INVALID_CONTEXT",
    205: "MAP_FAILED",
    206: "UNMAP_FAILED",
    208: "ALREADY_MAPPED",
    209: "NO_BINARY_FOR_GPU",
    210: "ALREADY_ACQUIRED",
    211: "NOT_MAPPED",
    214: "ECC_UNCORRECTABLE",
    215: "UNSUPPORTED_LIMIT",
    216: "CONTEXT_ALREADY_IN_USE",
    217: "PEER_ACCESS_UNSUPPORTED",
    218: "INVALID_PTX",
    220: "NVLINK_UNCORRECTABLE",
    221: "JIT_COMPILER_NOT_FOUND",
    222: "UNSUPPORTED_PTX_VERSION",
    223: "JIT_COMPILATION_DISABLED",
    226: "CONTAINED",
    300: "INVALID_SOURCE",
    301: "FILE_NOT_FOUND",
    302: "SHARED_OBJECT_SYMBOL_NOT_FOUND",
    303: "SHARED_OBJECT_INIT_FAILED",
    304: "OPERATING_SYSTEM",
    400: "INVALID_HANDLE",
    401: "ILLEGAL_STATE",
    500: "NOT_FOUND",
    600: "NOT_READY",
    700: "ILLEGAL_ADDRESS",
    701: "LAUNCH_OUT_OF_RESOURCES",
    702: "LAUNCH_TIMEOUT",
    704: "PEER_ACCESS_ALREADY_ENABLED",
    705: "PEER_ACCESS_NOT_ENABLED",
    708: "PRIMARY_CONTEXT_ACTIVE",
    709: "CONTEXT_IS_DESTROYED",
    710: "ASSERT",
    712: "HOST_MEMORY_ALREADY_REGISTERED",
    713: "HOST_MEMORY_NOT_REGISTERED",
    714: "HARDWARE_STACK_ERROR",
    715: "ILLEGAL_INSTRUCTION",
    716: "MISALIGNED_ADDRESS",
    717: "INVALID_ADDRESS_SPACE",
    718: "INVALID_PC",
    719: "LAUNCH_FAILED",
    800: "NOT_PERMITTED",
    801: "NOT_SUPPORTED",
    802: "SYSTEM_NOT_READY",
    803: "SYSTEM_DRIVER_MISMATCH",
    804: "COMPAT_NOT_SUPPORTED_ON_DEVICE",
    900: "STREAM_CAPTURE_UNSUPPORTED",
    901: "STREAM_CAPTURE_INVALIDATED",
    902: "STREAM_CAPTURE_MERGE",
    903: "STREAM_CAPTURE_UNMATCHED",
    904: "STREAM_CAPTURE_UNJOINED",
    905: "STREAM_CAPTURE_ISOLATION",
    906: "STREAM_CAPTURE_IMPLICIT",
    907: "CAPTURED_EVENT",
    908: "STREAM_CAPTURE_WRONG_THREAD",
    909: "TIMEOUT",
    910: "GRAPH_EXEC_UPDATE_FAILURE",
    999: "UNKNOWN",
}

STICKY = frozenset({214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719})
"""After these the context is lost: every later call in it returns the same."""

_HINTS = {
    OUT_OF_MEMORY: "a smaller batch needs less; other processes on the device hold memory too (nvidia-smi lists them)",
    NO_DEVICE: "is a GPU there, and not hidden by CUDA_VISIBLE_DEVICES?",
    NO_BINARY_FOR_GPU: "the machine code is of another GPU than the device: compile for its own, Client.cuda() does",
    218: "the driver cannot read the PTX: install ptxas, pip install 'xloom[cuda]'",
    222: "the driver is older than the PTX: install ptxas, pip install 'xloom[cuda]', so that it gets machine code",
    803: "the loaded kernel module and libcuda.so.1 are of different versions: restart after the driver's update",
}
_CODES = {
    INVALID_VALUE: Code.INVALID_ARGUMENT,
    OUT_OF_MEMORY: Code.RESOURCE_EXHAUSTED,
    NO_DEVICE: Code.NOT_FOUND,
    INVALID_DEVICE: Code.INVALID_ARGUMENT,
    NOT_FOUND: Code.NOT_FOUND,
    801: Code.UNIMPLEMENTED,
}
_RESTART = "the device's context is lost, with all arrays in it: start the process again"


def hint_of(result: int) -> str:
    """What helps with a CUresult, where that is known."""
    return _HINTS.get(result, _RESTART if result in STICKY else "")


class DriverError(XloomError):
    """The CUDA driver refuses a call, or a kernel failed. Act: by the name of its result; the message has it."""

    def __init__(self, result: int, did: str, *, where: str = "", hint: str = ""):
        super().__init__(f"{did}: {name_of(result)}", where=where, hint=hint or hint_of(result))
        self.result = result
        """CUresult."""

    @property
    def is_sticky(self) -> bool:
        """Whether the context is lost."""
        return self.result in STICKY

    @property
    def code(self) -> Code:
        """As PJRT says it."""
        return _CODES.get(self.result, Code.INTERNAL)


def name_of(result: int) -> str:
    """CUDA_ERROR_..., as the driver's header names it."""
    if result == SUCCESS:
        return "CUDA_SUCCESS"
    return f"CUDA_ERROR_{NAMES[result]}" if result in NAMES else f"CUresult {result}"
