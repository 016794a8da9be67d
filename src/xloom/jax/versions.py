"""Which versions of JAX xloom works with: it reaches into parts of JAX that change without notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xloom.supported_package import SupportedPackage

OLDEST, NEWEST = (0, 8, 0), (0, 10, 2)
"""The first and the last release that is tested. Later ones are taken as long as they have what is reached into."""

REACHED_INTO = {
    "jax._src.api": "clean_up",
    "jax._src.array": "ArrayImpl",
    "jax._src.buffer_callback": "_buffer_callback_lowering buffer_callback_p",
    "jax._src.callback": "emit_python_callback",
    "jax._src.compilation_cache": "is_cache_used",
    "jax._src.compiler": "backend_compile_and_load",
    "jax._src.dispatch": "wait_for_tokens",
    "jax._src.dlpack": "_DL_DEVICE_TO_PLATFORM",
    "jax._src.interpreters.mlir": "_platform_specific_lowerings _platforms_with_donation",
    "jax._src.interpreters.pxla": "MeshComputation",
    "jax._src.lax.control_flow.conditionals": "_cond_lowering _platform_index_lowering cond_p platform_index_p",
    "jax._src.lib._jax": "buffer_to_dlpack_managed_tensor dlpack_managed_tensor_to_buffer",
    "jax._src.lib._profiler": "register_plugin_profiler",
    "jax._src.typing": "DLDeviceType",
    "jax.interpreters.mlir": "emit_python_callback",
    "jax._src.xla_bridge": """BackendRegistration _backend_factories _backends _init_backend _nonexperimental_plugins
        make_cpu_client register_plugin""",
    "jaxlib.xla_client": "HloSharding OpSharding encode_inspect_sharding_callback register_custom_call_handler",
}
"""What is not JAX's public interface, by module."""


def check_version() -> None:
    """Raises UnsupportedError for a JAX that xloom does not work with; it says which of the two must change."""
    import jax

    jax_package = SupportedPackage("JAX", "jax", OLDEST, NEWEST, REACHED_INTO)
    jax_package.check(tuple(jax.__version_info__), jax.__version__)


def type_registration() -> tuple[Callable[[str, Any], None], Callable[[str, Any], Any]]:
    """What hears of a platform's FFI types, and what registers them with jaxlib's own CPU; in 0.8.0 they were ids."""
    from jaxlib import xla_client

    client: Any = xla_client
    if hasattr(client, "register_custom_type_handler"):
        return client.register_custom_type_handler, client._xla.register_custom_type
    return client.register_custom_type_id_handler, client._xla.register_custom_type_id
