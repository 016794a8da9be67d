"""Asynchronous copies on the emulator: bytes arrive when they are waited for, and not to have waited is found."""

import numpy as np
import pytest

from tests.cuda.test_emulator import SM_80, THREADS, at, run
from xloom.cuda.kernel import KernelBuilder
from xloom.cuda.kernels.async_copy import begin_copy, commit_copies, wait_for_copies
from xloom.errors import KernelFaultError
from xloom.llvm.types import FLOAT, I32, I64


def reversed_block(*, waits=True, has_barrier=True, groups=2, newest=0, read=4, has_second=False):
    """y[i] = x[63 - i], of which shared memory gets copies, in `groups` groups."""
    k = KernelBuilder(SM_80, 2, THREADS)
    b, memory = k.b, k.shared(4 * THREADS)
    begin_copy(k, at(k, memory, k.thread), at(k, k.pointers[0], k.thread), 4, I32(read))
    for _ in range(groups):
        commit_copies(k)
    if waits:
        wait_for_copies(k, newest)
    if has_barrier:
        k.barrier()
    other = b.load(at(k, memory, b.sub(I64(THREADS - 1), k.thread)), typ=FLOAT)
    b.store(other, at(k, k.pointers[1], k.thread))
    if has_second:  # while others may still read
        begin_copy(k, at(k, memory, k.thread), at(k, k.pointers[0], k.thread), 4, I32(4))
        commit_copies(k)
    return k.finished()


def arrays():
    return np.arange(1, THREADS + 1, dtype=np.float32), np.zeros(THREADS, np.float32)


def test_copies_that_are_waited_for():
    x, y = arrays()
    run(reversed_block(), x, y)
    assert np.array_equal(y, x[::-1])
    run(reversed_block(groups=2, newest=1), x, y)  # the newest group has none
    assert np.array_equal(y, x[::-1])


def test_what_is_not_read_is_zero():
    x, y = arrays()
    run(reversed_block(read=0), x, y)
    assert (y == 0).all()


@pytest.mark.parametrize("fault", [{"waits": False}, {"groups": 0}, {"groups": 1, "newest": 1}])
def test_copies_that_are_not_waited_for(fault):
    with pytest.raises(KernelFaultError, match="copy may still be on its way"):
        run(reversed_block(**fault), *arrays())


def test_others_see_copies_after_a_barrier():
    with pytest.raises(KernelFaultError, match=r"another thread touch|on its way|no thread of the block has written"):
        run(reversed_block(has_barrier=False), *arrays())


def test_a_copy_to_what_others_still_read():
    with pytest.raises(KernelFaultError, match=r"another thread touch the same memory|still be on its way"):
        run(reversed_block(has_second=True), *arrays())


def test_a_copy_from_outside():
    x, y = arrays()
    with pytest.raises(KernelFaultError, match="no part of its arrays"):
        run(reversed_block(), x[:60], y)
