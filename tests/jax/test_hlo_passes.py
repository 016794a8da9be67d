"""xloom's passes inside stock XLA, on its CPU."""

import ctypes

import numpy as np
import pytest

from xloom.errors import PassError
from xloom.hlo.text.parser import parse

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
xla_client = pytest.importorskip("jaxlib.xla_client")
hlo_passes = pytest.importorskip("xloom.jax")

X = np.linspace(-3, 3, 32, dtype=np.float32).reshape(4, 8)
called = []


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
def twice(out, operands):
    """A kernel with the original ABI: 2 x, so that it shows that it ran."""
    called.append(1)
    x = np.ctypeslib.as_array(ctypes.cast(operands[0], ctypes.POINTER(ctypes.c_float)), (X.size,))
    np.ctypeslib.as_array(ctypes.cast(out, ctypes.POINTER(ctypes.c_float)), (X.size,))[:] = 2 * x


@pytest.fixture(scope="module")
def kernel() -> str:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = make(ctypes.cast(twice, ctypes.c_void_p), b"xla._CUSTOM_CALL_TARGET", None)
    xla_client.register_custom_call_target("XloomTestTwice", capsule, "cpu", api_version=0)
    return "XloomTestTwice"


def gelu_and_more(x):
    return jax.nn.gelu(x) + 1


def test_a_fused_operator_becomes_a_kernel(kernel: str) -> None:
    function = jax.jit(gelu_and_more)
    plain = np.asarray(function(X))
    called.clear()
    with hlo_passes.use_passes(f"outline{{pattern=gelu,target={kernel}}}") as used:
        outlined = np.asarray(function(X))
    assert called
    np.testing.assert_allclose(outlined, 2 * X + 1, rtol=1e-6)
    assert any(name.endswith("gelu_and_more") and runs[0].changed for name, runs in used.runs)
    called.clear()
    np.testing.assert_array_equal(np.asarray(function(X)), plain)
    assert not called


def test_expand_inside_xla_undoes_outline() -> None:
    def function(q, k, v):
        return jax.nn.dot_product_attention(q, k, v)

    arguments = [np.random.default_rng(n).standard_normal((2, 5, 3, 8), np.float32) for n in range(3)]
    plain = np.asarray(jax.jit(function)(*arguments))
    with hlo_passes.use_passes("outline{pattern=attention,target=A},expand,dce", compare=True) as used:
        back = np.asarray(jax.jit(function)(*arguments))
    runs = next(runs for name, runs in used.runs if name.endswith("function"))
    assert [r.changed for r in runs[:2]] == [True, True]
    np.testing.assert_allclose(back, plain, rtol=1e-5, atol=1e-6)


def test_a_carrier_from_jax_is_expanded_without_a_kernel() -> None:
    carried = parse("HloModule sum ENTRY e { x = f32[4,8] parameter(0) ROOT r = f32[4,8] add(x, x) }").to_text()

    call = jax.ffi.ffi_call(
        "NoSuchKernel",
        jax.ShapeDtypeStruct(X.shape, X.dtype),
        custom_call_api_version=1,
        legacy_backend_config=carried,
    )
    with hlo_passes.use_passes("expand"):
        np.testing.assert_array_equal(np.asarray(jax.jit(lambda x: call(x) - 1)(X)), X + X - 1)


def test_modules_that_no_pass_changes_are_left_to_xla() -> None:
    with hlo_passes.use_passes("outline{pattern=softmax,target=S}") as used:
        np.testing.assert_allclose(np.asarray(jax.jit(lambda x: jnp.sin(x) * 2)(X)), np.sin(X) * 2, rtol=1e-6)
    assert used.runs
    assert not any(r.changed for _, runs in used.runs for r in runs)


def test_errors() -> None:
    with pytest.raises(PassError, match="there is no pass 'outlin'"):
        hlo_passes.use_passes("outlin")
    with (
        hlo_passes.use_passes("outline{pattern=gelo,target=G}"),
        pytest.raises(jax.errors.JaxRuntimeError, match="there is no pattern 'gelo'"),
    ):
        jax.jit(lambda x: x * 3)(X)
