"""Which versions of JAX xloom works with: it reaches into parts of JAX that change without notice."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import xloom
from xloom.errors import UnsupportedError

OLDEST, NEWEST = (0, 8, 0), (0, 10, 2)
"""The first and the last release that is tested. Later ones are taken as long as they have what is reached into."""

REACHED_INTO = {
    "jax._src.api": "clean_up",
    "jax._src.array": "ArrayImpl",
    "jax._src.callback": "emit_python_callback",
    "jax._src.compilation_cache": "is_cache_used",
    "jax._src.compiler": "backend_compile_and_load",
    "jax._src.dispatch": "wait_for_tokens",
    "jax._src.dlpack": "_DL_DEVICE_TO_PLATFORM",
    "jax._src.interpreters.mlir": "_platform_specific_lowerings _platforms_with_donation",
    "jax._src.lax.control_flow.conditionals": "_cond_lowering _platform_index_lowering cond_p platform_index_p",
    "jax._src.lib._jax": "buffer_to_dlpack_managed_tensor dlpack_managed_tensor_to_buffer",
    "jax._src.lib._profiler": "register_plugin_profiler",
    "jax._src.typing": "DLDeviceType",
    "jax.interpreters.mlir": "emit_python_callback",
    "jax._src.xla_bridge": """BackendRegistration _backend_factories _backends _init_backend _nonexperimental_plugins
        make_cpu_client register_plugin""",
    "jaxlib.xla_client": "register_custom_call_handler",
}
"""What is not JAX's public interface, by module."""


def check_version() -> None:
    """Raises UnsupportedError for a JAX that xloom does not work with; it says which of the two must change."""
    import jax

    missing = [f"{module}.{name}" for module, names in REACHED_INTO.items() for name in _absent(module, names.split())]
    found = tuple(jax.__version_info__)
    if not missing and found >= OLDEST:
        return
    oldest, newest = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
    if found < OLDEST:
        hint = f"update JAX: pip install jax=={newest}"
    elif found > NEWEST:
        hint = f"update xloom, or go back to the last JAX that this one is made for: pip install jax=={newest}"
    else:
        hint = f"install JAX again, it is not complete: pip install --force-reinstall jax=={jax.__version__}"
    lacks = f", which lacks {', '.join(missing)}" if missing else ""
    raise UnsupportedError(
        f"xloom {xloom.__version__} is made for JAX {oldest} to {newest}, and this is JAX {jax.__version__}{lacks}",
        hint=hint,
    )


def _absent(module: str, names: list[str]) -> list[str]:
    parent, _, last = module.rpartition(".")
    try:
        found = import_module(module)
    except ImportError:  # some are attributes of a module
        found = getattr(import_module(parent), last, None)
    return [name for name in names if not hasattr(found, name)]


def type_registration() -> tuple[Callable[[str, Any], None], Callable[[str, Any], Any]]:
    """What hears of a platform's FFI types, and what registers them with jaxlib's own CPU; in 0.8.0 they were ids."""
    from jaxlib import xla_client

    client: Any = xla_client
    if hasattr(client, "register_custom_type_handler"):
        return client.register_custom_type_handler, client._xla.register_custom_type
    return client.register_custom_type_id_handler, client._xla.register_custom_type_id
