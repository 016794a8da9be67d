"""Blocks of a simulated device's memory: arrays of the host, with who may touch them when."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque

import numpy as np

from xloom.cuda.driver import results
from xloom.cuda.emulator.launch import POISON

ALIGNMENT = 512
_RED_ZONE = 512
_KEPT = 256
"""So many freed blocks stay the host's, so that no other array gets their addresses soon."""


class RefusedError(Exception):
    """A call that gives a CUresult other than success."""

    def __init__(self, result: int):
        super().__init__(results.name_of(result))
        self.result = result


class Block:
    """Bytes of a device. They are alive from when its stream comes to their allocation until it frees them."""

    def __init__(self, nbytes: int, device: int):
        raw = np.full(nbytes + ALIGNMENT + 2 * _RED_ZONE, POISON, np.uint8)
        start = _RED_ZONE + -(raw.ctypes.data + _RED_ZONE) % ALIGNMENT
        self.bytes = raw[start : start + nbytes]
        self.begin = self.bytes.ctypes.data
        self.device = device
        self.is_alive = False


class DeviceMemory:
    """All blocks of all devices, by address."""

    def __init__(self, limit: int):
        self.limit = limit
        """Bytes of each device."""
        self.used: dict[int, int] = {}
        self.most: dict[int, int] = {}
        self._begins: list[int] = []
        self._blocks: dict[int, Block] = {}
        self._freed: deque[Block] = deque(maxlen=_KEPT)

    def allocate(self, nbytes: int, device: int) -> Block:
        """A block, which is not alive yet. Raises RefusedError when the device is full."""
        used = self.used.get(device, 0) + nbytes
        if used > self.limit:
            raise RefusedError(results.OUT_OF_MEMORY)
        self.used[device], self.most[device] = used, max(used, self.most.get(device, 0))
        block = Block(nbytes, device)
        self._blocks[block.begin] = block
        insort(self._begins, block.begin)
        return block

    def block_at(self, address: int) -> Block:
        """The block that begins at an address. Raises RefusedError where none does."""
        if address not in self._blocks:
            raise RefusedError(results.INVALID_VALUE)
        return self._blocks[address]

    def free(self, block: Block) -> None:
        """Takes a block away: its stream has come to where it is freed."""
        if not block.is_alive:
            raise RefusedError(results.INVALID_VALUE)
        block.is_alive = False
        block.bytes[...] = POISON
        self.used[block.device] -= block.bytes.nbytes
        del self._blocks[block.begin]
        del self._begins[bisect_right(self._begins, block.begin) - 1]
        self._freed.append(block)

    def around(self, address: int) -> np.ndarray:
        """The bytes of the block that an address is in. Raises RefusedError where none is that is alive."""
        place = bisect_right(self._begins, address) - 1
        if place >= 0:
            block = self._blocks[self._begins[place]]
            if block.is_alive and address <= block.begin + block.bytes.nbytes:
                return block.bytes
        raise RefusedError(results.ILLEGAL_ADDRESS)

    def part(self, address: int, nbytes: int) -> np.ndarray:
        """Bytes at an address. Raises RefusedError unless they are all of one block that is alive."""
        around = self.around(address)
        first = address - around.ctypes.data
        if first + nbytes > around.nbytes:
            raise RefusedError(results.ILLEGAL_ADDRESS)
        return around[first : first + nbytes]
