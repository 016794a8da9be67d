"""JAX on backends of one's own, each program in a process of its own: `backend_programs.py NAME`."""

import gc
import os
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xloom as xl
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.jax import register_backend, use_passes
from xloom.pjrt import Client, Compiler, InterpreterCompiler
from xloom.sim import Simulator, operator
from xloom.trace import trace

X = np.arange(4096, dtype=np.float32)


class Small(Simulator):
    platform = "small"
    memory_bytes = 1 << 20


def raises(kind, text, call, *arguments):
    try:
        jax.block_until_ready(call(*arguments))
    except kind as error:
        assert text in str(error), error
        return str(error)
    raise AssertionError("no error")


def cut(value):
    return tuple(map(cut, value)) if isinstance(value, tuple) else value[:2]


class Cut:
    memory = CompiledMemoryStats(0, 0, 0, 0)

    def __init__(self, module):
        self.module = module

    def run(self, arguments, launch):
        return cut(xl.evaluate(self.module, *arguments))

    def rendezvous(self):
        return None


class Cutting(Compiler):
    platform_name = device_kind = "mydevice"

    def compile(self, module):
        return Cut(module)


class Mine(InterpreterCompiler):
    platform_name = device_kind = "mydevice"


def too_small():
    """JAX would read past the end of the array."""
    register_backend("mydevice", lambda devices: Client(Cutting(), devices))
    x = jax.device_put(X, jax.devices("mydevice")[0])
    text = "gave float32[2] as result 0, where the module says f32[4096]"
    raises(jax.errors.JaxRuntimeError, text, lambda: jax.jit(lambda x: x + 1)(x))
    assert np.array_equal(x, X)


def platforms():
    """Whatever JAX_PLATFORMS says, the platform is there, and computes."""
    early = os.environ["WHEN"] == "early"
    if not early:
        jnp.ones(3).block_until_ready()
    before = os.environ.get("JAX_PLATFORMS", "")
    register_backend("mydevice", lambda devices: Client(Mine(), devices))
    is_default = before.startswith("mydevice") and early
    (device,) = jax.devices("mydevice")
    assert jax.default_backend() == ("mydevice" if is_default else "cpu"), jax.default_backend()
    assert jax.devices("cpu")[0].platform == "cpu"
    x = jax.device_put(X, device)
    y = jax.jit(lambda x: jnp.sin(x) @ x)(x)
    assert y.devices() == {device}
    np.testing.assert_allclose(y, np.sin(X) @ X, rtol=1e-4)
    seen = []
    jax.jit(lambda x: jax.debug.callback(lambda v: seen.append(float(v)), x[1]))(x)
    jax.effects_barrier()
    assert seen == [1.0]
    lend: Any = np.from_dlpack
    lent = lend(x)
    assert lent.ctypes.data == x.unsafe_buffer_pointer() and np.array_equal(lent, X)
    taken = jax.dlpack.from_dlpack(X)
    assert {d.platform for d in taken.devices()} == {"mydevice" if is_default else "cpu"}, taken.devices()
    there = jax.dlpack.from_dlpack(X, device=device)
    assert there.devices() == {device} and np.array_equal(there, X)
    raises(ValueError, "there is a backend", lambda: register_backend("mydevice", lambda n: Client(Mine(), n)))


def torch_takes_arrays():
    import torch

    register_backend("mydevice", lambda devices: Client(Mine(), devices))
    x = jax.device_put(X, jax.devices("mydevice")[0])
    lent = torch.from_dlpack(x)
    assert lent.data_ptr() == x.unsafe_buffer_pointer() and lent[5] == 5
    half = torch.from_dlpack(jax.jit(lambda x: x.astype(jnp.bfloat16))(x))
    assert half.dtype == torch.bfloat16 and half[5] == 5
    assert np.array_equal(jax.dlpack.from_dlpack(torch.arange(4), device=jax.devices("mydevice")[0]), np.arange(4))


def another_name():
    register_backend("other", lambda devices: Client(Mine(), devices))
    (device,) = jax.devices("other")
    assert (device.platform, repr(device)) == ("other", "OtherDevice(id=0)")
    x = jax.device_put(X, device)
    lend: Any = np.from_dlpack
    assert np.array_equal(lend(x), X)
    double = jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct(X.shape, X.dtype), x)
    assert np.array_equal(double, 2 * X)
    matrix = jax.device_put(np.diag(np.array([1, 2], np.float32)), device)
    np.testing.assert_allclose(jnp.linalg.eigh(matrix)[0], [1, 2], rtol=1e-6)
    with use_passes("outline{pattern=softmax,target=Kernel}", platforms="other") as used:
        jax.jit(lambda x: jnp.sin(x) + 1)(x)
    assert used.runs


def memory_of_its_own():
    register_backend("small", lambda devices: Client.sim(Small, devices))
    (device,) = jax.devices("small")
    x = jax.device_put(X, device)
    lend: Any = np.from_dlpack
    raises(BufferError, "the host cannot read the memory of small's devices; np.asarray", lambda: lend(x))
    there = jax.dlpack.from_dlpack(X)  # on small if that is the default
    assert np.array_equal(there, X)
    if there.devices() == {device}:
        raises(jax.errors.JaxRuntimeError, "none of small's devices", lambda: jax.dlpack.from_dlpack(X, copy=False))
    host = x.sharding.with_memory_kind("pinned_host")
    y = jax.jit(lambda x: x * 2, out_shardings=host)(jax.device_put(x, host))
    assert y.sharding.memory_kind == "pinned_host" and np.array_equal(y, 2 * X)
    assert np.array_equal(jax.jit(jnp.negative)(y), -2 * X)


def statistics():
    register_backend("small", lambda devices: Client.sim(Small, devices))
    (device,) = jax.devices("small")
    before = device.memory_stats()["bytes_in_use"]
    x = jax.device_put(X, device)
    found = device.memory_stats()
    assert found["bytes_in_use"] == before + X.nbytes and found["bytes_limit"] == 1 << 20, found
    text = "RESOURCE_EXHAUSTED: out of device memory"
    raises(jax.errors.JaxRuntimeError, text, lambda: jax.device_put(np.zeros(1 << 18, np.float32), device))
    said = raises(jax.errors.JaxRuntimeError, text, jax.jit(lambda x: jnp.outer(x, x)), x)
    assert Path(__file__).name in said, said
    np.testing.assert_allclose(jax.jit(lambda x: x + x)(x), 2 * X)
    del x
    gc.collect()  # the tracebacks of the errors refer to arrays
    assert device.memory_stats()["bytes_in_use"] == before
    assert jax.devices("cpu")[0].memory_stats() is None


class Bare(Simulator):
    platform = "bare"
    opcodes = frozenset({"add", "multiply", "broadcast"})


def unsupported():
    register_backend("bare", lambda devices: Client.sim(Bare, devices))
    x = jax.device_put(X, jax.devices("bare")[0])

    def layer(x):
        return jnp.tanh(x + 1) * jnp.cos(x) + jnp.tanh(x)

    said = raises(jax.errors.JaxRuntimeError, "UNIMPLEMENTED: the device bare lacks", lambda: jax.jit(layer)(x))
    rows = [row for row in said.splitlines() if Path(__file__).name in row]
    assert [row.split()[0] for row in rows] == ["tanh", "cosine"] and rows[0].count(" of jit(layer)/tanh, ") == 2, said


class Wrong(Simulator):
    platform = "wrong"

    @operator("cosine")
    def cosine(self, instruction, x):
        value = np.cos(x)
        value[7:9] *= np.float32(1.001)
        return value


def compared():
    register_backend("wrong", lambda devices: Client.sim(Wrong, devices, compare="each"))
    x = jax.device_put(X[:64], jax.devices("wrong")[0])
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: (x * x).sum()))(x), 2 * X[:64])
    model = jax.jit(lambda x: jnp.tanh(jnp.cos(x) + x).sum())
    said = raises(jax.errors.JaxRuntimeError, "wrong's cosine differs from the CPU's: cos", lambda: model(x))
    assert "[7] is 0.7546562, and 0.75390226 on the CPU" in said and "(2 of 64 elements differ)" in said, said
    assert f"/cos, {__file__}:" in said, said


def traced():
    register_backend("small", lambda devices: Client.sim(Small, devices))
    with trace() as taken:
        x = jax.device_put(X, jax.devices("small")[0])
        np.asarray(jax.jit(lambda x: x + 1)(x))
    assert {s["name"] for s in taken.spans("compile")} == {"jit__lambda"}
    (run,) = taken.spans("execute")
    assert run["args"] == {"device": "small:0"} and taken.thread_names()[run["tid"]] == "small:0"
    assert [s["name"] for s in taken.spans("transfer")] == ["host to device", "device to host"]
    kernels = taken.spans("kernel")
    assert "add" in {s["args"]["opcode"] for s in kernels} and {s["tid"] for s in kernels} == {run["tid"]}


if __name__ == "__main__":
    globals()[sys.argv[1]]()
