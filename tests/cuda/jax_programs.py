"""JAX on simulated GPUs, as the platform that the plugin registers: each program in a process of its own."""

import ctypes
import os
import sys

import numpy as np

os.environ["JAX_PLATFORMS"] = "xloom_cuda"
os.environ["XLOOM_NUM_DEVICES"] = "2"

import jax
import jax.numpy as jnp

from tests.cuda.simulation import simulated_gpus
from xloom.calls import custom_call
from xloom.pjrt import cuda

GPUS, MACHINE = simulated_gpus(2)
cuda.gpus = lambda count=None: GPUS[:count]
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def arrays():
    """Programs, devices, memory kinds, what is given away."""
    first, second = jax.devices()
    assert first.platform == "xloom_cuda" and first.device_kind == "simulated sm_80"
    step = jax.jit(jax.value_and_grad(lambda w, x: jnp.tanh(x @ w).sum()))
    loss, slope = step(jnp.ones((3, 2)), X)
    np.testing.assert_allclose(loss, 2 * np.tanh(X.sum(1)).sum(), rtol=1e-5)
    assert slope.shape == (3, 2) and slope.devices() == {first}
    there = jax.device_put(slope, second)
    assert there.devices() == {second} and np.array_equal(there, slope)
    kinds = [m.kind for m in first.addressable_memories()]
    assert "device" in kinds and "pinned_host" in kinds
    pinned = jax.device_put(X, jax.sharding.SingleDeviceSharding(first, memory_kind="pinned_host"))
    back = jax.device_put(pinned, jax.sharding.SingleDeviceSharding(first, memory_kind="device"))
    assert pinned.sharding.memory_kind == "pinned_host" and np.array_equal(back, X)
    assert first.memory_stats()["num_allocs"] > 0
    given = jnp.ones(4096)
    taken = jax.jit(lambda x: x + 1, donate_argnums=0)(given)
    assert given.is_deleted() and np.array_equal(taken, np.full(4096, 2))
    powers = jax.lax.fori_loop(0, 5, lambda _, x: 2 * x, jnp.ones(3))
    assert np.array_equal(powers, np.full(3, 32))


def callbacks():
    """Functions of the host in programs."""
    seen = []

    def f(x):
        y = jax.pure_callback(lambda v: np.sort(v), jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        jax.debug.callback(seen.append, y.sum())
        return 2 * y

    found = jax.jit(f)(jnp.array([3.0, 1.0, 2.0]))
    assert np.array_equal(found, [2, 4, 6])
    jax.effects_barrier()
    assert float(seen[0]) == 6


def calls():
    """`jax.ffi` with code that is registered for CUDA, by xloom's registry and by JAX's."""
    kept = []

    @custom_call("twice", platform="CUDA")
    def twice(out, x):
        out.from_host(2 * x.to_host())

    call = jax.ffi.ffi_call("twice", jax.ShapeDtypeStruct((2, 3), np.float32))
    assert np.array_equal(jax.jit(call)(X), 2 * X)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_size_t)
    def thrice(stream, buffers, opaque, size):
        copy = GPUS[0].driver.functions["cuMemcpyDtoDAsync_v2"]
        copy(buffers[1], buffers[0], 24, stream)
        kept.append((stream, ctypes.string_at(opaque, size)))

    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    address = ctypes.cast(thrice, ctypes.c_void_p).value
    capsule = new(("PyCapsule_New", ctypes.pythonapi))(address, b"xla._CUSTOM_CALL_TARGET", None)
    jax.ffi.register_ffi_target("copied", capsule, platform="CUDA", api_version=0)
    options = {"custom_call_api_version": 1, "legacy_backend_config": "hello"}
    call = jax.ffi.ffi_call("copied", jax.ShapeDtypeStruct((2, 3), np.float32), **options)
    assert np.array_equal(jax.jit(call)(X), X) and kept == [(GPUS[0].compute, b"hello")]


class Lent:
    """What lends an array of JAX's, as another library would."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def dlpack():
    """Memory on a GPU, lent and taken without a copy."""
    x = jax.device_put(X, jax.devices()[1]) + 1
    assert tuple(map(int, x.__dlpack_device__())) == (2, 1)
    again = jnp.from_dlpack(Lent(x))
    assert again.devices() == x.devices(), again.devices()
    assert again.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert np.array_equal(again, X + 1)
    other = jax.dlpack.from_dlpack(Lent(x + 1), copy=True)
    assert other.devices() == x.devices()
    assert np.array_equal(other, X + 2)
    half = x.astype(jnp.bfloat16)
    assert jnp.from_dlpack(Lent(half)).dtype == jnp.bfloat16
    del x
    assert np.array_equal(again + 1, X + 2)
    host = jnp.from_dlpack(X)
    assert np.array_equal(host, X)


def linear_algebra():
    """Factorisations: LAPACK's by the host, where there is no kernel of ours."""
    a = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
    values, vectors = jax.jit(jnp.linalg.eig)(a)
    np.testing.assert_allclose(a @ vectors, vectors * values, atol=1e-4)
    q, r = jax.jit(jnp.linalg.qr)(a[:, :3])
    np.testing.assert_allclose(q @ r, a[:, :3], atol=1e-5)
    np.testing.assert_allclose(jax.jit(jnp.linalg.solve)(a, a), np.eye(5), atol=1e-4)
    np.testing.assert_allclose(
        jax.jit(jnp.linalg.inv)(np.stack([a, 2 * a])), np.linalg.inv(np.stack([a, 2 * a])), atol=1e-3
    )
    assert "while" not in (jax.jit(jnp.linalg.solve).lower(a, a).compile().as_text() or "while")
    both = np.stack([a @ a.T, 2 * a @ a.T]) + np.eye(5, dtype=np.float32)
    lower = jax.jit(jnp.linalg.cholesky)(both)
    np.testing.assert_allclose(lower @ lower.mT, both, atol=1e-4)
    values, vectors = jax.jit(jnp.linalg.eigh)(both)
    np.testing.assert_allclose(both @ vectors, vectors * values[:, None], atol=1e-4)
    u, s, v = jax.jit(jnp.linalg.svd)(a[:3])
    np.testing.assert_allclose((u * s) @ v[:3], a[:3], atol=1e-5)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
