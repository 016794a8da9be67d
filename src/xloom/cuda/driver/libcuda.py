"""NVIDIA's driver, out of the library that it brings: no toolkit is needed."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from xloom.cuda.driver.driver import Driver
from xloom.cuda.driver.entry_points import CONDITIONAL_NODES, ENTRY_POINTS, prototype
from xloom.cuda.driver.results import SUCCESS, DriverError, hint_of
from xloom.errors import UnsupportedError

LIBRARY = "libcuda.so.1"


@lru_cache(maxsize=1)
def libcuda() -> Driver:
    """The driver of this machine. Raises UnsupportedError where there is none, or one that lacks something."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise UnsupportedError(
            f"no NVIDIA driver: {LIBRARY} is not on the library path ({error})",
            hint="install NVIDIA's driver (nvidia-smi then works; in a container, pass --gpus all); without a GPU, "
            "Client.cuda_emulator() runs the same kernels on the processor",
        ) from None
    missing = [name for name in ENTRY_POINTS if not hasattr(library, name)]
    if missing:
        raise UnsupportedError(
            f"the NVIDIA driver is too old: {LIBRARY} has no {', '.join(missing)}",
            hint="update it to one of CUDA 12 or later; nvidia-smi says which it is",
        )
    there = [*ENTRY_POINTS, *(name for name in CONDITIONAL_NODES if hasattr(library, name))]
    driver = Driver({name: prototype(name)((name, library)) for name in there}, LIBRARY)
    result = driver.functions["cuInit"](0)
    if result != SUCCESS:
        raise DriverError(result, f"cuInit of {LIBRARY}", hint=hint_of(result) or "nvidia-smi says what is wrong")
    return driver
