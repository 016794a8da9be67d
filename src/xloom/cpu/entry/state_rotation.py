"""Pointers of a loop's state that move on in each iteration, and how the contents come back to where they belong."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.state_rotation import StateRotation
from xloom.cpu.buffer_verifier.events import Copy, Overwrite
from xloom.llvm.loop import allocate
from xloom.llvm.types import POINTER

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder


class RotatingPointers:
    """The present addresses of a rotation's allocations, from before a loop to after it."""

    def __init__(self, entry: EntryBuilder, rotation: StateRotation):
        self._entry, self._rotation = entry, rotation
        self._first = {allocation: entry.pointer(allocation) for allocation, _ in rotation.moves}
        self._slots = {allocation: allocate(entry.b, POINTER) for allocation in self._first}
        for allocation, address in self._first.items():
            entry.b.store(address, self._slots[allocation])
        self._before = entry.move_allocations(self._slots)

    def turn(self) -> None:
        """At the end of an iteration: each allocation has the memory of the one before it."""
        b, entry, moves = self._entry.b, self._entry, self._rotation.moves
        addresses = {before: self._address(before) for _, before in moves}
        for after, before in moves:
            b.store(addresses[before], self._slots[after])
        # the same as copies, from the last state to the first
        chain = [self._rotation.spare, *self._rotation.states]
        for before, after in reversed(list(pairwise(chain))):
            entry.events.append(Copy(after, before, after.nbytes))
        entry.events.append(Overwrite(self._rotation.spare))

    def end(self) -> None:
        """After the loop: the states' contents are brought back to their first addresses, and these are used again."""
        b, states = self._entry.b, self._rotation.states
        free = allocate(b, POINTER)
        b.store(self._address(self._rotation.spare), free)
        # the free memory is the first one of some state or of the spare; a copy moves it on by one
        for state in states * len(states):
            first = self._first[state]
            with b.if_then(b.icmp_unsigned("==", first, b.load(free, typ=POINTER))):
                here = self._address(state)
                self._entry.copy_bytes(first, here, state.nbytes)
                b.store(here, free)
        self._entry.restore_allocations(self._before)

    def _address(self, allocation: BufferAllocation) -> ir.Value:
        return self._entry.b.load(self._slots[allocation], typ=POINTER)
