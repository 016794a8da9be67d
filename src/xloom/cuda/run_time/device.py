"""A GPU: its context, its streams, and what is on the way there."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from functools import cached_property
from typing import Any

from xloom.cuda.driver import entry_points
from xloom.cuda.driver.driver import Driver
from xloom.cuda.run_time.events import Completion, Events
from xloom.cuda.run_time.memory import DeviceMemory
from xloom.cuda.run_time.modules import ImageMaker, Modules
from xloom.cuda.run_time.pinned import PinnedMemory
from xloom.errors import UnsupportedError
from xloom.llvm.target import GPUS, Target, target_named


class CudaDevice:
    """A GPU. Used as a context (`with device:`), it is the one of the calling thread."""

    def __init__(self, driver: Driver, ordinal: int, image_of: ImageMaker):
        """Raises DriverError where there is none of that number, UnsupportedError for one that there is no code for."""
        self.driver, self.ordinal = driver, ordinal
        number = driver.made("cuDeviceGet", ordinal, kind=ctypes.c_int)
        name = ctypes.create_string_buffer(256)
        driver.call("cuDeviceGetName", ctypes.addressof(name), len(name), number)
        self.name = name.value.decode(errors="replace")
        self.target = _target(
            self.name, *(driver.attribute(a, number) for a in (entry_points.MAJOR, entry_points.MINOR))
        )
        self.total_bytes: int = driver.made("cuDeviceTotalMem_v2", number, kind=ctypes.c_size_t)
        self.context: int = driver.made("cuDevicePrimaryCtxRetain", number)
        self.capturing = threading.Lock()
        """Held by who makes a graph."""
        self._on_the_way: deque[tuple[Completion, Any]] = deque()
        with self:
            self.compute, self.upload, self.download, self.capture = (
                driver.made("cuStreamCreate", entry_points.NON_BLOCKING) for _ in range(4)
            )
            """Streams: the one that computes, those of copies, and one that graphs are made in."""
            self.memory = DeviceMemory(driver, number, self.compute, self.total_bytes)
        self.pinned = PinnedMemory(driver)
        self.events = Events(driver)
        self.modules = Modules(driver, self.target, image_of)

    def __enter__(self) -> CudaDevice:
        self.driver.call("cuCtxPushCurrent_v2", self.context)
        return self

    def __exit__(self, *_: Any) -> None:
        self.driver.functions["cuCtxPopCurrent_v2"](None)  # which would hide what went wrong inside

    def record(self, stream: int, where: str = "", keep: Any = None) -> Completion:
        """The end of what a stream was given so far. `keep` lives until then."""
        completion = Completion(self, self.events.recorded(stream), stream, where)
        self.sweep()
        if keep is not None:
            self._on_the_way.append((completion, keep))
        return completion

    def sweep(self) -> None:
        """Lets go of what was kept for work that has ended."""
        while self._on_the_way:
            try:
                first = self._on_the_way.popleft()
            except IndexError:  # another thread was faster
                return
            if not first[0].is_reached:
                self._on_the_way.appendleft(first)
                return

    def follow(self, stream: int, completion: Completion | None) -> None:
        """What a stream is given from now on comes after something, of this device or another."""
        if completion is not None and completion.stream != stream and not completion.was_reached:
            self.driver.call("cuStreamWaitEvent", stream, completion.event.handle, 0)

    def synchronize(self) -> None:
        """Waits for all of its work. Raises DriverError for what went wrong."""
        with self:
            self.driver.call("cuCtxSynchronize")
        self.sweep()

    @cached_property
    def multiprocessors(self) -> int:
        """How many it has."""
        return self.driver.attribute(entry_points.MULTIPROCESSOR_COUNT, self.ordinal)

    def __repr__(self) -> str:
        return f"CudaDevice({self.ordinal}: {self.name})"


def _target(name: str, major: int, minor: int) -> Target:
    """The nearest GPU that there is code for: machine code serves later ones of the same first number too."""
    exact = f"sm_{major}{minor}"
    if f"{exact}a" in GPUS:
        return target_named(f"{exact}a")
    serving = [each for each in GPUS if each[3:].isdigit() and int(each[3:-1]) == major and int(each[-1]) <= minor]
    if not serving:
        raise UnsupportedError(
            f"{name} has compute capability {major}.{minor}, which there is no code for",
            hint=f"there is for {', '.join(GPUS)}",
        )
    return target_named(max(serving, key=lambda each: int(each[3:])))


def devices_of(driver: Driver, image_of: ImageMaker, count: int | None = None) -> list[CudaDevice]:
    """The first GPUs, by default all. Raises UnsupportedError where there are fewer."""
    there: int = driver.made("cuDeviceGetCount", kind=ctypes.c_int)
    wanted = there if count is None else count
    if not there or wanted > there:
        hint = "is a GPU hidden by CUDA_VISIBLE_DEVICES? nvidia-smi lists what there is"
        raise UnsupportedError(f"{wanted or 'some'} GPUs are wanted, and {driver.name} has {there}", hint=hint)
    return [CudaDevice(driver, ordinal, image_of) for ordinal in range(wanted)]
