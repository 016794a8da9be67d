"""Programs through PJRT on a simulated driver: memory, order, errors."""

import gc
import threading

import numpy as np
import pytest

import xloom as xl
from tests.cuda.simulation import gpu_of, simulated_client
from xloom.cuda.driver import libcuda
from xloom.cuda.run_time.device import CudaDevice, devices_of
from xloom.cuda.run_time.images import ptx_image
from xloom.cuda.simulated_driver.driver import simulated_driver
from xloom.errors import OutOfMemoryError, UnsupportedError
from xloom.hlo.dtype import bf16
from xloom.hlo.shape import Layout
from xloom.pjrt import Client, PjrtError
from xloom.pjrt.compiler import CpuCompiler
from xloom.pjrt.cuda import CudaCompiler, CudaProgram
from xloom.status_code import Code

SOFTMAX = """HloModule softmax
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }
ENTRY main {
  x = f32[8,100] parameter(0)
  zero = f32[] constant(0)
  e = f32[8,100] exponential(x)
  s = f32[8] reduce(e, zero), dimensions={1}, to_apply=add
  b = f32[8,100] broadcast(s), dimensions={0}
  ROOT q = f32[8,100] divide(e, b)
}"""
LOOP = """HloModule loop
condition { p = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5) ROOT r = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1)
  j = s32[] add(i, one) v = f32[4] get-tuple-element(p), index=1 w = f32[4] add(v, v)
  ROOT t = (s32[], f32[4]) tuple(j, w) }
ENTRY e { i = s32[] parameter(0) v = f32[4] parameter(1) p = (s32[], f32[4]) tuple(i, v)
  ROOT w = (s32[], f32[4]) while(p), condition=condition, body=body }"""
TABLE = """HloModule table
ENTRY e { i = s32[16] parameter(0) x = f32[16] parameter(1)
  t = f32[16] constant({0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15})
  n = f32[16] convert(i) ROOT y = (f32[16], f32[16], f32[16]) tuple(add(x, t), x, multiply(n, t)) }"""
BRANCHES = """HloModule branches
a { x = f32[4] parameter(0) ROOT y = f32[4] add(x, x) }
b { x = f32[4] parameter(0) ROOT y = f32[4] multiply(x, x) }
c { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }
ENTRY e { i = s32[] parameter(0) x = f32[4] parameter(1)
  ROOT y = f32[4] conditional(i, x, x, x), branch_computations={a, b, c} }"""
DONATED = """HloModule step, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e { x = f32[4096] parameter(0) y = f32[4096] parameter(1) ROOT z = f32[4096] add(x, y) }"""
DYNAMIC = """HloModule dynamic
ENTRY e { x = f32[<=8] parameter(0) ROOT y = f32[<=8] add(x, x) }"""


def same_as_cpu(text, *arguments, client=None):
    """Runs a program on a simulated GPU, and holds its results against the processor's."""
    client = client or simulated_client()[0]
    module = xl.parse(text)
    found = client.compile(module).execute([client.buffer_from_host(a) for a in arguments])
    cpu = Client(CpuCompiler())
    expected = cpu.compile(module).execute([cpu.buffer_from_host(a) for a in arguments])
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-5, atol=1e-6)


def normal(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_programs_give_what_the_processor_gives(seed):
    client, _ = simulated_client(seed=seed)
    same_as_cpu(SOFTMAX, normal(8, 100), client=client)
    same_as_cpu(TABLE, np.arange(16, dtype=np.int32), normal(16), client=client)


def test_the_host_decides_loops_and_branches():
    same_as_cpu(LOOP, np.int32(1), normal(4))
    for number in (-1, 0, 1, 2, 3):
        same_as_cpu(BRANCHES, np.int32(number), normal(4))


def test_arrays_of_dynamic_size_are_cut_and_padded_by_the_host():
    client, _ = simulated_client()
    (y,) = client.compile(xl.parse(DYNAMIC)).execute([client.buffer_from_host(normal(5))])
    np.testing.assert_array_equal(np.asarray(y), normal(5) * 2)


def test_empty_arrays_and_layouts():
    same_as_cpu("HloModule m\nENTRY e { x = f32[0,3] parameter(0) ROOT y = f32[0,3] add(x, x) }", normal(0, 3))
    client, _ = simulated_client()
    buffer = client.buffer_from_host(normal(2, 3), layout=Layout((0, 1)))
    np.testing.assert_array_equal(np.asarray(buffer), normal(2, 3))


def test_a_run_gives_the_device_its_work_and_does_not_wait():
    client, machine = simulated_client()
    executable, x = client.compile(xl.parse(SOFTMAX)), client.buffer_from_host(normal(8, 100))
    (y,) = executable.execute([x])
    (z,) = executable.execute([y])
    assert y.ready.is_known and not z.ready.is_ready
    assert not any("Synchronize" in call for call in machine.calls)
    assert z.block_until_ready().ready.is_ready and y.ready.is_ready


def test_who_wants_to_know_is_told():
    client, _ = simulated_client()
    executable, x = client.compile(xl.parse(SOFTMAX)), client.buffer_from_host(normal(8, 100))
    (results,) = executable.launch([[x]])
    told = [threading.Event() for _ in range(2)]
    results.buffers[0].ready.on_ready(lambda future: told[0].set())
    results.done.on_ready(lambda future: told[1].set())
    assert all(each.wait(30) for each in told)


def test_who_waits_for_a_limited_time():
    client, _ = simulated_client()
    (y,) = client.compile(xl.parse(SOFTMAX)).execute([client.buffer_from_host(normal(8, 100))])
    assert not y.ready.wait(0)
    assert y.ready.wait(60)


@pytest.mark.parametrize("forgotten", ["upload", "compute", "download"])
def test_streams_that_do_not_wait_are_found(monkeypatch, forgotten):
    """Each of the waits that `CudaDevice.follow` makes is needed."""
    follow = CudaDevice.follow

    def forgetful(self, stream, completion):
        if stream != getattr(self, forgotten):
            follow(self, stream, completion)

    monkeypatch.setattr(CudaDevice, "follow", forgetful)
    wrong = 0
    for seed in range(12):
        client, _ = simulated_client(seed=seed)
        try:
            (y,) = client.compile(xl.parse(SOFTMAX)).execute([client.buffer_from_host(normal(8, 100))])
            wrong += not np.allclose(np.asarray(y).sum(1), 1)
        except PjrtError:
            wrong += 1
    assert wrong


def test_memory_goes_back_when_arrays_are_gone():
    client, machine = simulated_client()
    executable, x = client.compile(xl.parse(SOFTMAX)), client.buffer_from_host(normal(8, 100))
    for _ in range(5):
        (x,) = executable.execute([x])
    x.block_until_ready()
    gpu_of(client).synchronize()
    gc.collect()
    stats = client.devices[0].memory_stats()
    assert stats is not None
    assert stats["bytes_in_use"] == x.nbytes and stats["num_allocs"] >= 6
    assert stats["peak_bytes_in_use"] >= 2 * x.nbytes and stats["bytes_limit"] == machine.memory.limit


def test_a_full_device_says_so_and_goes_on():
    client, _ = simulated_client(memory_bytes=1 << 20)
    with pytest.raises(OutOfMemoryError, match=r"out of device memory: 2097152 bytes asked for, 0 of 1048576"):
        client.buffer_from_host(np.zeros(1 << 19, np.float32))
    for _ in range(4):  # what is given back is there again
        np.asarray(client.buffer_from_host(np.zeros(1 << 17, np.float32)))


def test_donated_memory_is_the_results():
    client, _ = simulated_client()
    executable = client.compile(xl.parse(DONATED))
    x, y = (client.buffer_from_host(normal(4096)) for _ in range(2))
    for buffer in (x, y):
        buffer.block_until_ready()
    gpu_of(client).sweep()
    place = x.ready.value.pointer
    (z,) = executable.execute([x, y])
    assert z.ready.value.pointer == place and x.is_deleted
    np.testing.assert_array_equal(np.asarray(z), 2 * normal(4096))
    (other,) = executable.execute([y, z], not_donated=[0])
    assert other.ready.value.pointer != y.ready.value.pointer


def test_a_donated_array_that_is_still_read_stays():
    client, _ = simulated_client()
    executable = client.compile(xl.parse(DONATED))
    x, y = (client.buffer_from_host(normal(4096)) for _ in range(2))
    array = x.block_until_ready().ready.value
    (z,) = executable.execute([x, y])
    assert z.ready.value.pointer != array.pointer


def test_arrays_go_from_gpu_to_gpu_and_to_pinned_memory():
    client, machine = simulated_client(2)
    x = client.buffer_from_host(normal(64), client.devices[1])
    there = x.copy_to(client.devices[0].default_memory).copy_to(client.devices[0].memory_space("pinned_host"))
    assert "cuMemcpyPeerAsync" in machine.calls and isinstance(there.ready.result(), np.ndarray)
    back = there.copy_to(client.devices[1].default_memory).copy_to(client.devices[1].default_memory)
    np.testing.assert_array_equal(np.asarray(back), normal(64))


def spoiled(client, monkeypatch):
    """A run whose kernel reads memory that is not there: its arena is one byte."""
    executable = client.compile(xl.parse(SOFTMAX))
    x = client.buffer_from_host(normal(8, 100))
    gpu = gpu_of(client)
    array = x.block_until_ready().ready.value
    gpu.driver.call("cuCtxPushCurrent_v2", gpu.context)
    gpu.driver.call("cuMemFreeAsync", array.pointer, gpu.compute)
    gpu.driver.call("cuCtxPopCurrent_v2", None)
    array.block.pointer, pointer = 0, array.block.pointer
    monkeypatch.setattr(type(array), "pointer", property(lambda self: self.block.pointer or pointer))
    return executable.execute([x])[0]


def test_a_fault_of_a_kernel_says_what_it_makes(monkeypatch):
    client, _ = simulated_client()
    y = spoiled(client, monkeypatch)
    with pytest.raises(PjrtError, match=r"ILLEGAL_ADDRESS \(at softmax: %s.*%q[\s\S]*start the process again") as found:
        y.block_until_ready()
    assert found.value.code == Code.INTERNAL
    with pytest.raises(PjrtError, match="ILLEGAL_ADDRESS"):
        client.buffer_from_host(normal(4))
    with pytest.raises(PjrtError, match="softmax: %s"):
        np.asarray(y)


def test_with_a_check_the_fault_is_found_at_its_launch(monkeypatch):
    monkeypatch.setenv("XLOOM_CHECK", "launches")
    client, _ = simulated_client()
    with pytest.raises(PjrtError, match=r"a kernel failed: CUDA_ERROR_ILLEGAL_ADDRESS \(at %s, %q"):
        spoiled(client, monkeypatch)


def test_a_machine_without_a_driver_says_what_was_looked_for(monkeypatch):
    monkeypatch.setattr(libcuda, "LIBRARY", "libno-cuda.so.1")
    libcuda.libcuda.cache_clear()
    with pytest.raises(UnsupportedError, match=r"libno-cuda.so.1 is not on the library path[\s\S]*cuda_emulator"):
        Client.cuda()


def test_more_gpus_than_there_are():
    from tests.cuda.simulation import simulated_gpus
    from xloom.cuda.run_time.device import devices_of

    (gpu,), _ = simulated_gpus()
    with pytest.raises(UnsupportedError, match=r"3 GPUs are wanted, and a simulated driver has 1"):
        devices_of(gpu.driver, lambda kernel, target: b"", 3)


def test_shared_memory_that_launches_ask_for_and_a_state_of_the_device():
    client, machine = simulated_client(target="sm_90")
    a = normal(256, 128).astype(bf16.numpy)
    text = """HloModule product
ENTRY e { a = bf16[256,128] parameter(0) b = bf16[128,256] transpose(a), dimensions={1,0}
  ROOT c = bf16[256,256] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    executable = client.compile(xl.parse(text))
    program = executable.executable.program
    assert isinstance(program, CudaProgram)
    asked = [kernel.dynamic_shared_bytes for kernel in program.executable.tape.kernels]
    (c,) = executable.execute([client.buffer_from_host(a)])
    wide = a.astype(np.float32)
    np.testing.assert_allclose(np.asarray(c).astype(np.float32), wide @ wide.T, rtol=0.02, atol=0.5)
    assert bool(max(asked)) == ("cuFuncSetAttribute" in machine.calls)
    draw = client.compile(
        xl.parse(
            "ENTRY e { z = f32[] constant(0) o = f32[] constant(1) "
            "ROOT r = f32[64] rng(z, o), distribution=rng_uniform }"
        )
    )
    first, second = (np.asarray(draw.execute([])[0]) for _ in range(2))
    assert not np.array_equal(first, second)


def test_a_driver_that_is_older_than_the_assembler_gets_ptx():
    """As NVIDIA's of CUDA 12 do, of machine code by an assembler of CUDA 13."""
    driver, machine = simulated_driver(1, "sm_80")

    def made_later(kernel, target):
        machine.teach(ptx_image(kernel, target), kernel)
        return b"\x7fELF" + bytes(60)

    client = Client(CudaCompiler(devices_of(driver, made_later)))
    x = normal(300)
    (result,) = client.compile(xl.parse("ENTRY e { x = f32[300] parameter(0) ROOT y = f32[300] negate(x) }")).execute(
        [client.buffer_from_host(x)]
    )
    np.testing.assert_array_equal(np.asarray(result), -x)
