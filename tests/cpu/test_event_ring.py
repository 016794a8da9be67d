"""Rows that native code writes are taken once, whole, and the last ones of too many."""

import ctypes

import numpy as np

from xloom.cpu.runtime.event_ring import CAPACITY, EventRing


def words(ring: EventRing) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_int64 * (1 + CAPACITY * 3)).from_address(ring.address))


def write(ring: EventRing, *values: int, is_finished: bool = True) -> None:
    """As native code does."""
    memory = words(ring)
    number = memory[0]
    memory[0] += 1
    row = 1 + (number % CAPACITY) * 3
    memory[row + 1 : row + 3] = values
    if is_finished:
        memory[row] = number + 1


def test_rows_are_taken_once():
    ring = EventRing(2)
    assert ring.take() == []
    write(ring, 1, 2)
    write(ring, 3, 4)
    assert ring.take() == [[1, 2], [3, 4]]
    assert ring.take() == []
    write(ring, 5, 6)
    assert ring.take() == [[5, 6]]


def test_a_row_that_is_being_written_waits_with_those_after_it():
    ring = EventRing(2)
    write(ring, 1, 2)
    write(ring, 3, 4, is_finished=False)
    write(ring, 5, 6)
    assert ring.take() == [[1, 2]]
    words(ring)[1 + 3] = 2
    assert ring.take() == [[3, 4], [5, 6]]


def test_of_too_many_the_last_ones_are_kept():
    ring = EventRing(2)
    for k in range(CAPACITY + 5):
        write(ring, k, -k)
    rows = ring.take()
    assert len(rows) == CAPACITY and rows[0] == [5, -5] and rows[-1] == [CAPACITY + 4, -CAPACITY - 4]
