"""Which kernels an image has: a simulated driver knows those that it was taught, by their contents."""

from __future__ import annotations

import ctypes
import hashlib
import re
import struct
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from xloom.cuda.driver import results
from xloom.cuda.emulator.launch import EmulatedKernel
from xloom.cuda.kernel import DeviceKernel
from xloom.cuda.simulated_driver.memory import DeviceMemory, RefusedError
from xloom.errors import KernelFaultError
from xloom.llvm.target import Target

_ELF = b"\x7fELF"
Grid = tuple[int, int, int]


class Function(Protocol):
    """A kernel that can be launched."""

    @property
    def sizes(self) -> Sequence[int]:
        """Bytes of each parameter."""
        ...

    def run(self, grid: Grid, block: Grid, shared: int, parameters: Sequence[bytes], memory: DeviceMemory) -> None:
        """Runs it. Raises RefusedError for what it does wrong."""
        ...


class EmulatedFunction:
    """A kernel of ours, on the emulator."""

    def __init__(
        self, kernel: DeviceKernel, target: Target, generator: np.random.Generator, faults: list[KernelFaultError]
    ):
        self._kernel, self._target, self._generator, self._faults = kernel, target, generator, faults
        declared = re.search(rf"@\"?{kernel.name}\"?\((.*)\)", kernel.text)
        assert declared is not None
        self._pointers = declared[1].count("ptr")
        self.sizes = [8] * (self._pointers + declared[1].count("i64"))
        self._emulated: EmulatedKernel | None = None

    def run(self, grid: Grid, block: Grid, shared: int, parameters: Sequence[bytes], memory: DeviceMemory) -> None:
        """See Function."""
        is_asked_for = shared == self._kernel.dynamic_shared_bytes
        if block != (self._kernel.threads, 1, 1) or grid[1:] != (1, 1) or not is_asked_for:
            raise RefusedError(results.INVALID_VALUE)
        if self._emulated is None:
            self._emulated = EmulatedKernel(self._kernel, self._target)
        given = [int.from_bytes(each, "little") for each in parameters]
        regions = {r.ctypes.data: r for r in (memory.around(a) for a in given[: self._pointers] if a)}
        try:
            self._emulated.launch_in_place(grid[0], given, list(regions.values()), self._generator)
        except KernelFaultError as error:
            self._faults.append(error)
            is_access = "no part of its arrays" in error.message
            raise RefusedError(results.ILLEGAL_ADDRESS if is_access else results.LAUNCH_FAILED) from None


class StandIn:
    """A function of the host in place of a kernel that others wrote: it gets grid, block, and the parameters' bytes."""

    def __init__(self, function: Callable[[Grid, Grid, Sequence[bytes]], None], sizes: Sequence[int]):
        self._function, self.sizes = function, sizes

    def run(self, grid: Grid, block: Grid, shared: int, parameters: Sequence[bytes], memory: DeviceMemory) -> None:
        """See Function."""
        self._function(grid, block, parameters)


class Images:
    """What is in images of machine code or PTX, by their contents."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Function]] = {}

    def teach(self, image: bytes, name: str, function: Function) -> None:
        """An image has a kernel of that name."""
        self._known.setdefault(_digest(image), {})[name] = function

    def at(self, address: int) -> dict[str, Function]:
        """The kernels of an image in memory. Raises RefusedError for one that is not known."""
        found = self._known.get(_digest(_image_at(address)))
        if found is None:
            raise RefusedError(results.NO_BINARY_FOR_GPU)
        return found


def _digest(image: bytes) -> str:
    return hashlib.sha256(image.rstrip(b"\0")).hexdigest()


def _image_at(address: int) -> bytes:
    """PTX is a text that a zero ends; machine code is ELF, which says in its header where its tables are."""
    if ctypes.string_at(address, len(_ELF)) != _ELF:
        return ctypes.string_at(address)
    header = ctypes.string_at(address, 64)
    program_headers, section_headers = struct.unpack_from("<QQ", header, 32)
    entry, entries, section_entry, sections = struct.unpack_from("<HHHH", header, 54)
    end = max(program_headers + entry * entries, section_headers + section_entry * sections)
    return ctypes.string_at(address, end)
