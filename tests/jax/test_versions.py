"""Other versions of JAX and of PJRT: what works, and errors that say which side must change."""

import ctypes
from typing import Any

import pytest

jax = pytest.importorskip("jax")

from jax._src import xla_bridge  # noqa: E402
from jaxlib import xla_client  # noqa: E402

import xloom as xl  # noqa: E402
from xloom.errors import UnsupportedError  # noqa: E402
from xloom.hlo.proto.schema import messages  # noqa: E402
from xloom.hlo.proto.shardings import sharding_from_bytes  # noqa: E402
from xloom.jax import registration  # noqa: E402
from xloom.jax.versions import check_version, type_registration  # noqa: E402
from xloom.pjrt import Client, CompileOptions  # noqa: E402
from xloom.pjrt.capi import errors  # noqa: E402
from xloom.pjrt.capi.api import api  # noqa: E402
from xloom.pjrt.capi.ctypes_structs import least_size, new, text_at  # noqa: E402
from xloom.pjrt.capi.executables import ExecutableView, executable_handle  # noqa: E402
from xloom.pjrt.capi.handles import drop  # noqa: E402
from xloom.pjrt.protobuf_wire_format import fields  # noqa: E402


@pytest.mark.parametrize(
    ("version", "advice"), [((0, 7, 2), "update JAX"), ((0, 11, 0), "update xloom"), ((0, 10, 2), "JAX again")]
)
def test_a_jax_that_lacks_something(monkeypatch, version, advice):
    monkeypatch.setattr(jax, "__version_info__", version)
    monkeypatch.delattr(xla_bridge, "_nonexperimental_plugins")
    with pytest.raises(UnsupportedError, match=rf"JAX 0.8.0 to 0.10.2.*_bridge._nonexperimental_plugins[^$]*{advice}"):
        registration.register("xloom_of_another_version", {}, priority=-1)


def test_a_jax_that_is_too_old(monkeypatch):
    monkeypatch.setattr(jax, "__version_info__", (0, 7, 2))
    with pytest.raises(UnsupportedError, match=r"JAX 0.8.0 to 0.10.2, and this is JAX [\d.]+\n.*update JAX"):
        check_version()


def test_a_newer_jax_that_lacks_nothing(monkeypatch):
    monkeypatch.setattr(jax, "__version_info__", (0, 12, 0))
    check_version()


def test_types_of_ffi_were_ids_once(monkeypatch):
    heard = []
    monkeypatch.delattr(xla_client, "register_custom_type_handler", raising=False)
    monkeypatch.setattr(xla_client, "register_custom_type_id_handler", heard.append, raising=False)
    client: Any = xla_client
    monkeypatch.setattr(client._xla, "register_custom_type_id", heard.append, raising=False)
    assert type_registration() == (heard.append, heard.append)


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
    assert "install a newer jaxlib" in message


def test_an_older_caller_gets_the_fields_that_it_has():
    """And nothing is written behind them."""
    name = "PJRT_Executable_GetCompiledMemoryStats"
    module = xl.parse("HloModule m\nENTRY e { p = f32[8]{0} parameter(0) ROOT r = f32[8]{0} negate(p) }")
    executable = executable_handle(Client.cpu().compile(module).executable)
    args = new(f"{name}_Args", executable=executable, total_size_in_bytes=-1)
    args.struct_size = least_size(f"{name}_Args")
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(getattr(api(), name))
    assert not call(ctypes.addressof(args))
    assert (args.argument_size_in_bytes, args.output_size_in_bytes, args.total_size_in_bytes) == (32, 32, -1)
    drop(executable)


def test_the_optimised_program_has_its_shardings_where_older_versions_of_jaxlib_look_for_them():
    module = xl.parse("""HloModule m, num_partitions=2
ENTRY e {
  p = f32[8]{0} parameter(0), sharding={devices=[2]<=[2]}
  ROOT r = f32[8]{0} negate(p), sharding={replicated}
}""")
    options = CompileOptions(num_partitions=2, use_spmd_partitioning=True)
    view = ExecutableView(Client.cpu(2).compile(module, options).executable)
    (module,) = fields(view.program)[1]
    message = messages().Module.FromString(module)
    assert str(sharding_from_bytes(message.spmd_output_sharding)) == "{replicated}"
    assert [str(sharding_from_bytes(s)) for s in message.spmd_parameters_shardings] == ["{devices=[2]0,1}"]
