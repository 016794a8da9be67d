"""Kernels that are loaded on a device."""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable

from xloom.cuda.driver import entry_points
from xloom.cuda.driver.driver import Driver
from xloom.cuda.driver.results import INVALID_IMAGE, NO_BINARY_FOR_GPU, DriverError
from xloom.cuda.kernel import DeviceKernel
from xloom.cuda.run_time.images import ptx_image
from xloom.llvm.target import Target

ImageMaker = Callable[[DeviceKernel, Target], bytes]
"""Makes what the driver loads of a kernel; `images.image_of`, unless a test wants to know of it."""
_LOG_BYTES = 4096
_UNREADABLE = frozenset({INVALID_IMAGE, NO_BINARY_FOR_GPU})
"""What drivers say of machine code that a later assembler has made."""


class Modules:
    """Functions of a device's context: of kernels, each loaded once, and of images that others give."""

    def __init__(self, driver: Driver, target: Target, image_of: ImageMaker):
        self._driver, self._target, self._image_of = driver, target, image_of
        self._functions: dict[DeviceKernel, int] = {}
        self._of_images: dict[tuple[bytes, str], int] = {}
        self._loading = threading.Lock()

    def function(self, kernel: DeviceKernel, where: str = "") -> int:
        """The CUfunction of a kernel. The device is the thread's. Raises DriverError where it cannot be loaded."""
        with self._loading:
            found = self._functions.get(kernel)
            if found is None:
                found = self._functions[kernel] = self._loaded(kernel, where)
                if kernel.dynamic_shared_bytes:
                    asked = found, entry_points.MAX_DYNAMIC_SHARED_BYTES, kernel.dynamic_shared_bytes
                    self._driver.call("cuFuncSetAttribute", *asked)
            return found

    def _loaded(self, kernel: DeviceKernel, where: str) -> int:
        """As machine code; by PTX where the driver is older than what has made that."""
        try:
            return self.loaded(self._image_of(kernel, self._target), kernel.name, where)
        except DriverError as error:
            if error.result not in _UNREADABLE:
                raise
            try:
                return self.loaded(ptx_image(kernel, self._target), kernel.name, where)
            except DriverError:
                raise error from None

    def of_image(self, image: bytes, name: str) -> int:
        """The CUfunction of that name in an image, which is loaded once. The device is the thread's."""
        with self._loading:
            key = hashlib.sha256(image).digest(), name
            if key not in self._of_images:
                self._of_images[key] = self.loaded(image, name)
            return self._of_images[key]

    def loaded(self, image: bytes, name: str, where: str = "") -> int:
        """The CUfunction of that name in a cubin or PTX. Raises DriverError with what the driver says of it."""
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(entry_points.ERROR_LOG_BUFFER, entry_points.ERROR_LOG_BUFFER_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        data = ctypes.create_string_buffer(image, len(image) + 1)
        places = (ctypes.addressof(each) for each in (data, options, values))
        at, option_names, option_values = places
        try:
            module = self._driver.made("cuModuleLoadDataEx", at, len(options), option_names, option_values)
        except DriverError as error:
            said = log.value.decode(errors="replace").strip()
            did = f"loading {name}{f' ({said})' if said else ''}"
            raise DriverError(error.result, did, where=where) from None
        symbol = ctypes.create_string_buffer(name.encode())
        return self._driver.made("cuModuleGetFunction", module, ctypes.addressof(symbol))
