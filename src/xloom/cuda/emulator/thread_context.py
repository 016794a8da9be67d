"""What an emulated thread has beside its coroutine: where the fields lie, in bytes from its context on.

A launch's record has what its threads share: the arrays that they may touch, and the first fault.
"""

from __future__ import annotations

from enum import IntEnum

THREAD, BLOCK, THREADS, BLOCKS, LANE = 0, 4, 8, 12, 16
"""Numbers and sizes (i32) of the thread in its block and of the block in the grid; the number in the warp."""
STATE, SITE, MASK, PARITY = 20, 24, 28, 32
"""What it waits for, and where in the kernel; the lanes that take part; which half of its slots is in use."""
LAUNCH = 40
"""The launch's record (pointer)."""
SLOTS, SLOT_WORDS = 48, 16
"""Two times words (i32) that other lanes of the warp see: what is offered next does not overwrite what they read."""
UNFENCED = 176
"""Whether it has written to shared memory since its last fence.proxy.async (i32)."""
STRIDE = 192
"""Bytes from one thread's to the next one's."""

RANGES, RANGE_COUNT, EPOCH, FAULT, FAULT_SITE = 0, 8, 12, 16, 20
"""Of the launch: its table of ranges (pointer) and their number; barriers so far; the first fault and where it was."""
FAULT_THREAD, FAULT_BLOCK, FAULT_ADDRESS, FAULT_OTHER = 24, 28, 32, 40
"""Which thread met it, at which address (i64), and which other thread (i32) had a part in it."""
DUMMY, DUMMY_BYTES = 64, 256
"""Memory that is touched in place of what is out of bounds."""
LAUNCH_BYTES = DUMMY + DUMMY_BYTES

RANGE_BYTES = 32
"""Of a range: first address, address behind the last, shadow memory, and 1 for shared memory, each an i64.

The shadow memory has two words (i64) for each byte: who wrote it last, and who read it last.
"""


class State(IntEnum):
    """What a thread waits for."""

    READY = 0
    BARRIER = 1
    WARP = 2
    DONE = 3


class Fault(IntEnum):
    """What a kernel does wrong."""

    NONE = 0
    OUT_OF_BOUNDS = 1
    RACE = 2
    UNINITIALISED = 3
    DIVERGENT_BARRIER = 4
    BARRIER_AFTER_EXIT = 5
    DEADLOCK = 6
    INACTIVE_LANE = 7
    IN_FLIGHT = 8
    UNFENCED = 9
    MISALIGNED = 10


class Access(IntEnum):
    """How memory is touched."""

    READ = 0
    WRITE = 1
    ATOMIC = 2
    WRITE_AGAIN = 3
    """A write that is none where it changes nothing."""
    COPY = 4
    """A write that has begun, and may be done at any time until its thread has waited for it."""
    ARRIVAL = 5
    """The end of such a write."""
    PRODUCT = 6
    """A read by tensor cores of shared memory, which is on another way than a thread's."""


COPIES, COPY_GROUPS, COPY_ENTRIES, COPY_BYTES = 0, 4, 8, 40
"""Of a thread's asynchronous copies: how many are on their way, how many groups there were (both i32), entries."""
COPY_TARGET, COPY_SOURCE, COPY_SIZE, COPY_READ, COPY_GROUP, COPY_SITE = 0, 8, 16, 20, 24, 28
"""Of an entry: addresses; bytes that are written, and those that are read, the others 0; its group; its place."""
MOST_COPIES = 128
"""Of a thread on their way at once."""
