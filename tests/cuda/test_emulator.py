"""What is wrong with a kernel is found, by kernels written by hand."""

import numpy as np
import pytest
from llvmlite import ir

from xloom.cuda.emulator.launch import EmulatedKernel
from xloom.cuda.kernel import DeviceKernel, KernelBuilder
from xloom.errors import KernelFaultError
from xloom.llvm.target import target_named
from xloom.llvm.types import FLOAT, I1, I32, I64, VOID

SM_80 = target_named("sm_80")
THREADS = 64


def run(kernel: DeviceKernel, *arrays, blocks=1, seed=0, is_optimised=True):
    """Runs a kernel on arrays, which it changes."""
    views = [a.reshape(-1).view(np.uint8) for a in arrays]
    emulated = EmulatedKernel(kernel, SM_80, is_optimised=is_optimised)
    emulated.launch(blocks, views, np.random.default_rng(seed))


def at(k, pointer, index):
    return k.b.gep(pointer, [index], source_etype=FLOAT)


def reversed_block(*, has_barrier=True, length=THREADS, is_uniform=True):
    """y[i] = x[63 - i], through shared memory."""
    k = KernelBuilder(SM_80, 2, THREADS)
    b, memory = k.b, k.shared(4 * THREADS)
    b.store(b.load(at(k, k.pointers[0], k.thread), typ=FLOAT), at(k, memory, k.thread))
    if has_barrier and is_uniform:
        k.barrier()
    elif has_barrier:
        with b.if_then(b.icmp_signed("<", k.thread, I64(32))):
            k.barrier()
        return k.finished()
    other = b.sub(I64(length - 1), k.thread)
    b.store(b.load(at(k, memory, other), typ=FLOAT), at(k, k.pointers[1], k.thread))
    return k.finished()


def arrays():
    return np.arange(THREADS, dtype=np.float32), np.zeros(THREADS, np.float32)


@pytest.mark.parametrize("is_optimised", [True, False])
def test_a_kernel_without_faults(is_optimised):
    x, y = arrays()
    run(reversed_block(), x, y, is_optimised=is_optimised)
    assert np.array_equal(y, x[::-1])


def test_a_missing_barrier():
    with pytest.raises(
        KernelFaultError, match=r"another thread touch the same memory|no thread of the block has written"
    ):
        run(reversed_block(has_barrier=False), *arrays())


def test_a_barrier_that_some_threads_do_not_reach():
    with pytest.raises(KernelFaultError, match="never come to"):
        run(reversed_block(is_uniform=False), *arrays())


def test_shared_memory_out_of_bounds():
    with pytest.raises(KernelFaultError, match="no part of its arrays"):
        run(reversed_block(length=THREADS + 1), *arrays())


def test_global_memory_out_of_bounds():
    x, y = arrays()
    with pytest.raises(KernelFaultError, match="no part of its arrays"):
        run(reversed_block(), x, y[:60])
    with pytest.raises(KernelFaultError, match="no part of its arrays"):
        run(reversed_block(), x[:60], y)


def test_two_blocks_that_write_one_element():
    with pytest.raises(KernelFaultError, match="another thread touch the same memory"):
        run(reversed_block(), *arrays(), blocks=2)


def test_an_argument_is_not_written():
    x, y = arrays()
    y.flags.writeable = False
    with pytest.raises(KernelFaultError, match="an argument or a constant"):
        run(reversed_block(), x, y)


def test_two_barriers_on_two_ways():
    k = KernelBuilder(SM_80, 1, THREADS)
    with k.b.if_else(k.b.icmp_signed("<", k.thread, I64(32))) as (then, otherwise):
        with then:
            k.barrier()
            k.b.store(FLOAT(1.0), at(k, k.pointers[0], k.thread))
        with otherwise:
            k.barrier()
            k.b.store(FLOAT(2.0), at(k, k.pointers[0], k.thread))
    with pytest.raises(KernelFaultError, match=r"at another one|never come to"):
        run(k.finished(), np.zeros(THREADS, np.float32), is_optimised=False)


def test_a_shuffle_that_some_lanes_do_not_reach():
    k = KernelBuilder(SM_80, 1, 32)
    with k.b.if_then(k.b.icmp_signed("<", k.thread, I64(16))):
        moved = k.shuffled_down(k.b.sitofp(k.thread, FLOAT), 1)
        k.b.store(moved, at(k, k.pointers[0], k.thread))
    k.barrier()
    with pytest.raises(KernelFaultError, match="lanes of its warp that do not come"):
        run(k.finished(), np.zeros(32, np.float32))


def test_atomic_additions_are_no_race_but_plain_ones_are():
    def counted(is_atomic):
        k = KernelBuilder(SM_80, 1, THREADS)
        if is_atomic:
            k.b.atomic_rmw("add", k.pointers[0], I32(1), "monotonic")
        else:
            k.b.store(k.b.add(k.b.load(k.pointers[0], typ=I32), I32(1)), k.pointers[0])
        return k.finished()

    count = np.zeros(1, np.int32)
    run(counted(is_atomic=True), count, blocks=3)
    assert count[0] == 3 * THREADS
    with pytest.raises(KernelFaultError, match="another thread touch the same memory"):
        run(counted(is_atomic=False), count)


def test_a_vector_at_an_address_that_does_not_serve():
    def doubled(first):
        k = KernelBuilder(SM_80, 1, 32)
        four = ir.VectorType(FLOAT, 4)
        place = at(k, k.pointers[0], k.b.add(k.b.mul(k.thread, I64(4)), I64(first)))
        value = k.b.load(place, typ=four, align=16)
        k.b.store(k.b.fadd(value, value), place, align=16)
        return k.finished()

    run(doubled(4), np.zeros(132, np.float32))
    with pytest.raises(KernelFaultError, match="an address that is no multiple of what it takes"):
        run(doubled(1), np.zeros(132, np.float32))


def test_shuffles_as_ptx_has_them():
    k = KernelBuilder(SM_80, 3, 32)
    value = k.b.sitofp(k.thread, FLOAT)
    for pointer, moved in zip(
        k.pointers, (k.shuffled_down(value, 3), k.shuffled_down(value, 1, 8), k.broadcast(value, 5)), strict=True
    ):
        k.b.store(moved, at(k, pointer, k.thread))
    found = [np.zeros(32, np.float32) for _ in range(3)]
    run(k.finished(), *found)
    lanes = np.arange(32)
    assert np.array_equal(found[0], np.where(lanes + 3 < 32, lanes + 3, lanes))
    assert np.array_equal(found[1], np.where(lanes % 8 < 7, lanes + 1, lanes))
    assert (found[2] == 5).all()


def test_votes_and_barriers_of_a_warp():
    k = KernelBuilder(SM_80, 2, 32)
    b = k.b
    ballot = ir.Function(k.module, ir.FunctionType(I32, [I32, I1]), "llvm.nvvm.vote.ballot.sync")
    wait = ir.Function(k.module, ir.FunctionType(VOID, [I32]), "llvm.nvvm.bar.warp.sync")
    b.call(wait, [I32(-1)])
    votes = b.call(ballot, [I32(-1), b.icmp_signed(">", k.thread, I64(20))])
    across = ir.Function(k.module, ir.FunctionType(FLOAT, [I32, FLOAT, I32, I32]), "llvm.nvvm.shfl.sync.bfly.f32")
    for pointer, value in zip(
        k.pointers, (votes, b.call(across, [I32(-1), b.sitofp(k.thread, FLOAT), I32(3), I32(31)])), strict=True
    ):
        b.store(value, at(k, pointer, k.thread))
    found = np.zeros(32, np.int32), np.zeros(32, np.float32)
    run(k.finished(), *found)
    assert (found[0].view(np.uint32) == sum(1 << lane for lane in range(21, 32))).all()
    assert np.array_equal(found[1], np.arange(32) ^ 3)
