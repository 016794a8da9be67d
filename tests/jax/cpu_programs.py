"""JAX with xloom in the place of its CPU, run in a process of its own by test_in_place_of_cpu.py: `cpu_programs.py NAME`."""

import ctypes
import os
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.jax import programs


def names():
    assert jax.default_backend() == "cpu"
    (device,), (other,) = jax.devices("cpu"), jax.devices("jaxlib")
    assert "xloom" in device.client.platform_version and "xloom" not in other.client.platform_version
    for said in (str, repr, lambda d: d.platform, lambda d: d.device_kind):
        assert said(device) == said(other), (said(device), said(other))
    for memory, another in zip(device.addressable_memories(), other.addressable_memories(), strict=True):
        for said in (str, repr, lambda m: m.kind):
            assert said(memory) == said(another), (said(memory), said(another))
    assert jnp.ones(3).devices() == {device}


def both():
    """The same program on both, with a callback, LAPACK and an export."""

    @jax.jit
    def work(x):
        y = jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return jnp.linalg.eigh(y @ y.T)[0]

    x = np.arange(9, dtype=np.float32).reshape(3, 3)
    ours, theirs = (work(jax.device_put(x, jax.devices(name)[0])) for name in ("cpu", "jaxlib"))
    assert "xloom" in next(iter(ours.devices())).client.platform_version
    assert "xloom" not in next(iter(theirs.devices())).client.platform_version
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    exported = jax.export.export(jax.jit(jnp.cos), platforms=["cpu"])(jax.ShapeDtypeStruct((3,), np.float32))
    np.testing.assert_allclose(jax.export.deserialize(exported.serialize()).call(jnp.zeros(3)), np.ones(3))


def strides():
    """Arrays with gaps are lent neither to jaxlib's CPU nor in its place."""
    lent = np.arange(6).reshape(2, 3)
    assert jnp.from_dlpack(lent.T).tolist() == lent.T.tolist()
    for gaps in (lent[:, ::2], lent[::-1]):
        programs.raises(jax.errors.JaxRuntimeError, "UNIMPLEMENTED", lambda gaps=gaps: jnp.from_dlpack(gaps))


def registrations():
    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
    def fill(out, inputs):
        source = (ctypes.c_float * 3).from_address(inputs[0])
        (ctypes.c_float * 3).from_address(out)[:] = [x + 1 for x in source]

    jax.ffi.register_ffi_target("fill", jax.ffi.pycapsule(fill), platform="cpu", api_version=0)
    call = jax.ffi.ffi_call("fill", jax.ShapeDtypeStruct((3,), np.float32), custom_call_api_version=1)
    for platform in ("cpu", "jaxlib"):
        x = jax.device_put(np.arange(3, dtype=np.float32), jax.devices(platform)[0])
        np.testing.assert_array_equal(jax.jit(call)(x), [1, 2, 3])


def caches():
    """Executables of both have keys of their own."""
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        for platform in ("cpu", "jaxlib"):
            before = set(os.listdir(folder))
            x = jax.device_put(np.ones(4, np.float32), jax.devices(platform)[0])
            jax.jit(lambda x: jnp.sin(x) * 3)(x).block_until_ready()
            assert any("lambda" in name for name in set(os.listdir(folder)) - before)
        jax.config.update("jax_compilation_cache_dir", None)


def alignments():
    """Memory that jaxlib's CPU would not take without a copy is refused, and none other."""
    for alignment in (1, 4, 16, 32, 64):
        for dtype in (np.int8, np.float32):
            memory = np.zeros(256, np.int8)
            start = -memory.ctypes.data % 128 + alignment
            x = memory[start : start + 8].view(dtype)
            try:
                assert jnp.from_dlpack(x, copy=False).unsafe_buffer_pointer() == x.ctypes.data and alignment == 64
            except ValueError as error:
                assert "not aligned to 64 bytes" in str(error) and alignment < 64


def doubled_denormals():
    print(jax.jit(lambda x: x + x)(np.full(8, 1e-40, np.float32)).max() > 0)


def denormals():
    """They are 0 to programs, in all threads, and in what programs call; what moves elements keeps them."""
    tiny, many = np.full(8, 1e-40, np.float32), np.full((512, 1024), 1e-40, np.float32)
    small = np.full((64, 64), 1e-20, np.float32)

    def called(x):
        return jax.pure_callback(lambda v: np.asarray(v) + np.asarray(v), jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    for function, x in (
        (lambda x: x + x, tiny),
        (lambda x: x * 0.5, many),
        (lambda x: (x > 0, jnp.where(x > 0, 1, 2), jnp.sign(x), jnp.flip(x), -x), tiny),
        (lambda x: (jnp.exp(x - 90), jnp.log(x), jnp.sqrt(x)), tiny),
        (lambda x: (jnp.sum(x, 1), jnp.cumsum(x, 0)), many),
        (lambda x: (x @ x.T, jnp.linalg.cholesky(x.T @ x)), small),
        (lambda x: x.at[0].add(x[1]), tiny),
        (lambda x: x + x, tiny.astype(jnp.bfloat16)),
        (lambda x: x + x, np.full(4, 1e-7, np.float16)),
        (lambda x: lax.fori_loop(0, 3, lambda _, v: v * 0.5, x), np.full(4, 2e-38, np.float32)),
        (called, tiny),
    ):
        ours, theirs = (jax.jit(function)(jax.device_put(x, jax.devices(name)[0])) for name in ("cpu", "jaxlib"))
        for found, wanted in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            assert np.asarray(found).tobytes() == np.asarray(wanted).tobytes(), (found, wanted)
    assert tiny[0] + tiny[0] > 0, "the thread keeps them"


def as_on_xloom():
    for name in (
        "transformations",
        "control_flow",
        "layouts",
        "random",
        "linalg",
        "types",
        "host_arrays",
        "memories",
        "donation",
        "buffer_callbacks",
        "callbacks",
        "transforms",
        "effects_alone",
        "serialized",
        "dlpack",
        "checks",
    ):
        getattr(programs, name)()


def exits():
    """What ends a debugger inside a callback, say, is an error of the program."""
    ended = jax.jit(lambda x: jax.pure_callback(lambda _: sys.exit(0), jax.ShapeDtypeStruct((), jnp.float32), x))
    try:
        ended(1.0).block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        assert "SystemExit: 0" in str(error), error
    else:
        raise AssertionError("no error")


def counted():
    print(len(jax.devices()))


def installed():
    import xloom.jax

    xloom.jax.install_as_cpu()
    assert "xloom" in jax.devices()[0].client.platform_version
    xloom.jax.install_as_cpu()  # again


def too_late():
    import xloom.jax
    from xloom.errors import UnsupportedError

    jnp.ones(1)
    try:
        xloom.jax.install_as_cpu()
    except UnsupportedError as error:
        assert "already" in str(error)
    else:
        raise AssertionError


if __name__ == "__main__":
    globals()[sys.argv[1]]()
