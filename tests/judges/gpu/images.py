"""Machine code of kernels that another machine has made: a file for each, by the kernel's own text."""

from __future__ import annotations

import hashlib
from pathlib import Path

from xloom.cuda.driver.libcuda import libcuda
from xloom.cuda.kernel import DeviceKernel
from xloom.cuda.ptx import ptx_of
from xloom.cuda.ptxas import assembled
from xloom.cuda.run_time.device import devices_of
from xloom.cuda.run_time.images import image_of
from xloom.llvm.target import Target
from xloom.pjrt import Client
from xloom.pjrt.cuda import CudaCompiler


class Images:
    """Those in a folder."""

    def __init__(self, folder: Path):
        self._folder = folder / "images"

    def make(self, kernel: DeviceKernel, target: Target) -> None:
        """Assembles a kernel, unless it is there. Raises MissingExtraError where there is no ptxas."""
        path = self._path(kernel, target)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(assembled(ptx_of(kernel, target), target).cubin)

    def image_of(self, kernel: DeviceKernel, target: Target) -> bytes:
        """What the driver loads: what is there, or else what is made of the kernel here."""
        path = self._path(kernel, target)
        return path.read_bytes() if path.exists() else image_of(kernel, target)

    def client(self) -> Client:
        """The GPUs of this machine, with these images. Raises UnsupportedError where there are none."""
        return Client(CudaCompiler(devices_of(libcuda(), self.image_of)))

    def _path(self, kernel: DeviceKernel, target: Target) -> Path:
        return self._folder / f"{hashlib.sha256(target.key + kernel.text.encode()).hexdigest()[:32]}.cubin"
