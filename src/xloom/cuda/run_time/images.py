"""Kernels as machine code, made once and kept as the processor's is; PTX where nothing assembles it but the driver."""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache

from xloom.compilation_cache.cache import Cache, key_of
from xloom.cuda.kernel import DeviceKernel
from xloom.cuda.ptx import ptx_of
from xloom.cuda.ptxas import assembled, tool
from xloom.llvm.target import Target

image_cache = Cache()


def image_of(kernel: DeviceKernel, target: Target) -> bytes:
    """What the driver loads: a cubin by ptxas, else PTX, which the driver assembles each time that it is loaded.

    Raises LoweringError with what ptxas says is wrong.
    """
    key = key_of(b"image", target.key, _assembler().encode(), kernel.text.encode())
    image = image_cache.get(key)
    if image is None:
        image = assembled(ptx_of(kernel, target), target).cubin if tool("ptxas") else ptx_image(kernel, target)
        image_cache.put(key, image)
    return image


def ptx_image(kernel: DeviceKernel, target: Target) -> bytes:
    """What any driver loads that knows the GPU, and assembles each time."""
    return ptx_of(kernel, target).encode() + b"\0"


@lru_cache(maxsize=1)
def _assembler() -> str:
    """The version of what assembles, which machine code depends on."""
    ptxas = tool("ptxas")
    if ptxas is None:
        return "the driver"
    said = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"V([\d.]+)", said)
    return f"ptxas {version[1] if version else said}"
