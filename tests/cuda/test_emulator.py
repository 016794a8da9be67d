"""What is wrong with a kernel is found: faults are planted in kernels written by hand, and in those of programs."""

from dataclasses import replace

import numpy as np
import pytest

from tests.cuda.emulation import agrees
from xloom.cuda.emulator.launch import EmulatedKernel
from xloom.cuda.kernel import DeviceKernel, KernelBuilder
from xloom.errors import KernelFaultError
from xloom.llvm.target import target_named
from xloom.llvm.types import FLOAT, I32, I64

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


SOFTMAX = """add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }
ENTRY e { x = f32[10,300] parameter(0) zero = f32[] constant(0) p = f32[10,300] exponential(x)
  s = f32[10] reduce(p, zero), dimensions={1}, to_apply=add c = f32[10,300] broadcast(s), dimensions={0}
  ROOT q = f32[10,300] divide(p, c) }"""
PROGRAMS = {
    "rows": SOFTMAX,
    "columns": "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }\n"
    "ENTRY e { x = f32[300,40] parameter(0) i = f32[] constant(0) "
    "ROOT r = f32[40] reduce(x, i), dimensions={0}, to_apply=add }",
    "transpose": "ENTRY e { x = f32[40,70] parameter(0) ROOT t = f32[70,40] transpose(x), dimensions={1,0} }",
    "product": "ENTRY e { x = f32[20,16] parameter(0) y = f32[16,20] parameter(1) "
    "ROOT d = f32[20,20] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    "tensor cores": "ENTRY e { x = bf16[64,64] parameter(0) y = bf16[64,64] parameter(1) "
    "ROOT d = f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
}


def without(text, number):
    """A kernel's text without its barrier of that number."""
    lines = text.splitlines()
    found = [k for k, line in enumerate(lines) if "call" in line and "barrier.cta" in line]
    del lines[found[number]]
    return "\n".join(lines)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_barrier_of_a_program_is_missed(name):
    executable = agrees(PROGRAMS[name])
    for launch in executable.program.launches:
        text = launch.kernel.text
        count = sum("call" in line and "barrier.cta" in line for line in text.splitlines())
        for number in range(count):
            broken = replace(launch.kernel, text=without(text, number))
            sizes = [max(1, a.nbytes) for a in launch.arguments]
            memory = [np.zeros(size, np.uint8) for size in sizes]
            with pytest.raises(KernelFaultError):
                EmulatedKernel(broken, SM_80).launch(launch.blocks, memory, np.random.default_rng(number))
