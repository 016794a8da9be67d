"""Other versions of JAX and of PJRT than xloom is made for: the error says which side must change."""

import ctypes

import pytest

jax = pytest.importorskip("jax")

from jax._src import xla_bridge  # noqa: E402

from xloom.errors import UnsupportedError  # noqa: E402
from xloom.jax import registration  # noqa: E402
from xloom.pjrt.capi import errors  # noqa: E402
from xloom.pjrt.capi.api import api  # noqa: E402
from xloom.pjrt.capi.memory import least_size, new, text_at  # noqa: E402


@pytest.mark.parametrize(
    ("version", "advice"), [((0, 9, 0), "update JAX"), ((0, 11, 0), "update xloom"), ((0, 10, 2), "JAX again")]
)
def test_jax(monkeypatch, version, advice):
    monkeypatch.setattr(jax, "__version_info__", version)
    monkeypatch.delattr(xla_bridge, "_nonexperimental_plugins")
    with pytest.raises(
        UnsupportedError, match=f"made for JAX 0.10.2.*no attribute '_nonexperimental_plugins'[^$]*{advice}"
    ):
        registration.register("xloom_of_another_version", {}, priority=-1)


@pytest.mark.parametrize("name", ["PJRT_Client_Create", "PJRT_LoadedExecutable_Execute", "PJRT_Buffer_IsDeleted"])
def test_older_caller(name):
    args = new(f"{name}_Args")
    args.struct_size = least_size(f"{name}_Args") - 8
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(getattr(api(), name))
    error = call(ctypes.addressof(args))
    text = errors.message(error)
    message = text_at(text.address, text.size)
    errors.destroy(error)
    assert f"{name}: the arguments have {args.struct_size} bytes" in message
    assert "Install a newer jaxlib" in message
