"""One kernel on a grid, emulated: its blocks one after another, the threads of each in a random order."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from xloom.cuda.condition_kernel import SET_CONDITION
from xloom.cuda.emulator import graph_conditions
from xloom.cuda.emulator import thread_context as at
from xloom.cuda.emulator.coroutines import DESTROY, RESUME, START, Coroutine, coroutine_of, device_ir
from xloom.cuda.emulator.native_support import RUN_BLOCK, support
from xloom.cuda.emulator.thread_context import Fault
from xloom.cuda.kernel import WARP, DeviceKernel
from xloom.errors import KernelFaultError
from xloom.llvm.jit import Library, process_code
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.target import Target

_RED_ZONE = 256
"""Bytes around an array that no kernel may touch."""
POISON = 0xFF
"""In each byte of memory that nothing has been written to: a NaN, or -1."""
_MESSAGES = {
    Fault.OUT_OF_BOUNDS: "touches memory that is no part of its arrays",
    Fault.RACE: "and another thread touch the same memory without a barrier between them, and one of them writes",
    Fault.UNINITIALISED: "reads shared memory that no thread of the block has written",
    Fault.DIVERGENT_BARRIER: "waits at a barrier while others of the block wait at another one",
    Fault.BARRIER_AFTER_EXIT: "waits at a barrier that other threads of the block never come to: they have ended",
    Fault.DEADLOCK: "waits for lanes of its warp that do not come to the same instruction",
    Fault.INACTIVE_LANE: "reads a register of a lane that takes no part",
    Fault.IN_FLIGHT: "touches memory to which an asynchronous copy may still be on its way",
    Fault.MISALIGNED: "touches several bytes at an address that is no multiple of what it takes",
    Fault.UNFENCED: "has tensor cores read what a thread has written without fence.proxy.async after it",
}


class EmulatedKernel:
    """A kernel that the processor runs."""

    def __init__(self, kernel: DeviceKernel, target: Target, *, is_optimised: bool = True):
        """Of its LLVM IR after the passes that it goes through before PTX is made of it, or before them."""
        self.kernel = kernel
        self.coroutine: Coroutine = coroutine_of(
            device_ir(kernel, target, is_optimised=is_optimised),
            may_store_again=kernel.may_store_again,
            dynamic_shared_bytes=kernel.dynamic_shared_bytes,
        )
        _, functions = support()
        addresses = {**functions, SET_CONDITION: graph_conditions.ADDRESS}
        exports = [START, RESUME, DESTROY, *self.coroutine.shared]
        data = process_code(self.coroutine.text, PassPipeline.CALLERS)
        self._library = Library([data], exports, addresses)
        self._destroy = self._library.function(DESTROY, ctypes.CFUNCTYPE(None, ctypes.c_void_p))
        self._shared = [(self._library.address(name), size) for name, size in self.coroutine.shared.items()]

    def launch(
        self, blocks: int, arguments: Sequence[np.ndarray], generator: np.random.Generator, makes: str = ""
    ) -> None:
        """Runs all blocks on arrays of bytes, each of which only the kernel's own pointer to it reaches.

        Raises KernelFaultError for what it does wrong.
        """
        staged = [_Staged(array) for array in arguments]
        self._run(blocks, [s.address for s in staged], [s.range for s in staged], generator, makes)
        for number, (s, array) in enumerate(zip(staged, arguments, strict=True)):
            if not s.copy_back(array):
                raise KernelFaultError(f"the kernel writes to array {number}, an argument or a constant", where=makes)

    def launch_in_place(
        self, blocks: int, addresses: Sequence[int], regions: Sequence[np.ndarray], generator: np.random.Generator
    ) -> None:
        """Runs all blocks on arrays at addresses, which lie in `regions`, arrays of bytes that the kernel may touch.

        Raises KernelFaultError for what it does wrong.
        """
        shadows = [np.zeros((max(1, region.nbytes), 2), np.int64) for region in regions]
        begins = [region.ctypes.data for region in regions]
        ranges = [(a, a + r.nbytes, s.ctypes.data, 0) for a, r, s in zip(begins, regions, shadows, strict=True)]
        self._run(blocks, addresses, ranges, generator, "")

    def _run(
        self,
        blocks: int,
        addresses: Sequence[int],
        ranges: Sequence[tuple[int, int, int, int]],
        generator: np.random.Generator,
        makes: str,
    ) -> None:
        run_block = _run_block()
        threads = self.kernel.threads
        shared_shadow = [np.zeros((size, 2), np.int64) for _, size in self._shared]
        record, contexts = _Record(threads, blocks), np.zeros((threads, at.STRIDE), np.uint8)
        shared = [(a, a + size, s.ctypes.data, 1) for (a, size), s in zip(self._shared, shared_shadow, strict=True)]
        table = np.array([*ranges, *shared], np.int64).reshape(-1, 4)
        pointers = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
        handles = (ctypes.c_void_p * threads)()
        start, resume = self._library.address(START), self._library.address(RESUME)
        for block in generator.permutation(blocks):
            record.begin(contexts, int(block), table)
            for (address, size), shadow in zip(self._shared, shared_shadow, strict=True):
                ctypes.memset(address, POISON, size)
                shadow[...] = 0
            order = generator.permutation(threads).astype(np.int32)
            places = contexts.ctypes.data, threads, order.ctypes.data, ctypes.addressof(handles)
            fault = run_block(*places, start, resume, ctypes.addressof(pointers))
            for handle in handles:
                self._destroy(handle)
            if fault:
                raise self._error(record, Fault(fault), makes)

    def _error(self, record: _Record, fault: Fault, makes: str) -> KernelFaultError:
        values = record.values
        other = "" if values["other"] < 0 else f" (the other is thread {values['other']})"
        return KernelFaultError(
            f"thread {values['thread']} of block {values['block']} {_MESSAGES[fault]}{other}: "
            f"{self.coroutine.sites[values['site']]}",
            where=makes,
            hint=f"the kernel has {self.kernel.strategy}",
        )


class _Staged:
    """A copy of an array between red zones, with shadow memory."""

    def __init__(self, array: np.ndarray):
        self._memory = np.full(array.nbytes + 2 * _RED_ZONE + 64, POISON, np.uint8)
        self._first = _RED_ZONE + -(self._memory.ctypes.data + _RED_ZONE) % 64
        self._inside = self._memory[self._first : self._first + array.nbytes]
        self._inside[...] = array
        self._shadow = np.zeros((max(1, array.nbytes), 2), np.int64)
        self.address = self._memory.ctypes.data + self._first
        self.range = (self.address, self.address + array.nbytes, self._shadow.ctypes.data, 0)

    def copy_back(self, array: np.ndarray) -> bool:
        """What the kernel has left; False where that is something else in an array that is not to be written."""
        if not array.flags.writeable:
            return np.array_equal(array, self._inside)
        array[...] = self._inside
        return True


class _Record:
    """What the threads of a launch share."""

    def __init__(self, threads: int, blocks: int):
        self._memory = np.zeros(at.LAUNCH_BYTES, np.uint8)
        self._threads, self._blocks = threads, blocks

    def begin(self, contexts: np.ndarray, block: int, ranges: np.ndarray) -> None:
        """Fills in the contexts of a block's threads."""
        numbers = np.arange(self._threads, dtype=np.int32)
        contexts[...] = 0
        fields = {
            at.THREAD: numbers,
            at.BLOCK: block,
            at.THREADS: self._threads,
            at.BLOCKS: self._blocks,
            at.LANE: numbers % WARP,
        }
        for offset, value in fields.items():
            contexts[:, offset : offset + 4].view(np.int32)[:, 0] = value
        contexts[:, at.LAUNCH : at.LAUNCH + 8].view(np.int64)[:, 0] = self._memory.ctypes.data
        self._memory[at.RANGES : at.RANGES + 8].view(np.int64)[0] = ranges.ctypes.data
        self._word(at.RANGE_COUNT)[0] = len(ranges)

    @property
    def values(self) -> Mapping[str, int]:
        """Of the first fault."""
        offsets = {"site": at.FAULT_SITE, "thread": at.FAULT_THREAD, "block": at.FAULT_BLOCK, "other": at.FAULT_OTHER}
        return {name: int(self._word(offset)[0]) for name, offset in offsets.items()}

    def _word(self, offset: int) -> np.ndarray:
        return self._memory[offset : offset + 4].view(np.int32)


@lru_cache(maxsize=1)
def _run_block():
    library, _ = support()
    pointers = [ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 5]
    return library.function(RUN_BLOCK, ctypes.CFUNCTYPE(ctypes.c_int32, *pointers))
