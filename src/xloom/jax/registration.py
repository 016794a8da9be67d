"""A platform of xloom's in JAX, by PJRT's C API."""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable
from typing import Any

from xloom.cuda.names import PJRT_PLATFORM
from xloom.jax.annotations import trace_annotations
from xloom.jax.inherited_rules import CPU
from xloom.jax.versions import check_version

Options = dict[str, Any] | Callable[[], dict[str, Any]]

_registered: set[str] = set()


def register(platform: str, options: Options, priority: int) -> None:
    """Registers a platform, whose client is made with `options`; the highest priority is JAX's default platform. With
    the name `cpu` it takes the place of JAX's own.

    Raises UnsupportedError where JAX lacks what xloom needs of it, as other versions may.
    """
    check_version()
    from jax._src import xla_bridge
    from jax._src.lib import _profiler  # pyright: ignore[reportAttributeAccessIssue]

    from xloom.pjrt.capi import api_address, resume

    def made_with() -> dict[str, Any]:
        resume()
        return options() if callable(options) else options

    capsule = _capsule(api_address(), b"pjrt_c_api")
    xla_bridge._nonexperimental_plugins.add(platform)
    xla_bridge.register_plugin(
        platform, c_api=capsule, priority=priority, options=made_with, make_topology=_no_topology
    )
    if not _registered:
        _profiler.register_plugin_profiler(capsule)  # which JAX does for plugins out of libraries alone
        _retire_after_jax()
        trace_annotations()
    _registered.add(platform)
    _act_as_cpu(platform)


def is_registered(platform: str) -> bool:
    """Whether xloom is the platform of that name."""
    return platform in _registered


def _no_topology(*_: Any, **__: Any) -> Any:
    # jaxlib holds Python's lock while it compiles for a topology, in another thread: Python code there never starts
    raise NotImplementedError("topology not implemented: xloom compiles for the devices that are present")


def _retire_after_jax() -> None:
    """Makes JAX clean up first when Python ends: what is registered last is called first."""
    from jax._src import api, dispatch

    for function in (dispatch.wait_for_tokens, api.clean_up):
        atexit.unregister(function)
        atexit.register(function)


def _act_as_cpu(platform: str) -> None:
    """Gives the platform what JAX has for the CPU alone."""
    from xloom.jax import inherited_rules
    from xloom.jax.buffer_callbacks import lower_buffer_callbacks
    from xloom.jax.callbacks import lower_callbacks
    from xloom.jax.dlpack import exchange_arrays
    from xloom.jax.ffi_targets import take_registrations
    from xloom.jax.lowered_cost import analyse_lowered
    from xloom.jax.lowerings_on_gpu import lower_pivots
    from xloom.jax.sharding_inspection import inspect_shardings
    from xloom.jax.xla_transforms import take_transforms

    if platform != CPU:
        inherited_rules.inherit_lowerings(platform)
        inherited_rules.use_compilation_cache(platform)
    lower_callbacks(platform)
    lower_buffer_callbacks(platform)
    take_registrations(platform)
    inspect_shardings()
    take_transforms(platform)
    analyse_lowered(platform)
    exchange_arrays(platform)
    if platform == PJRT_PLATFORM:
        lower_pivots(platform)


def _capsule(address: int, name: bytes) -> Any:
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(("PyCapsule_New", ctypes.pythonapi))(address, name, None)
