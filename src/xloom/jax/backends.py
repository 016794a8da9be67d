"""Backends of one's own as platforms of JAX."""

from __future__ import annotations

from collections.abc import Callable

from xloom.jax.inherited_rules import CPU
from xloom.jax.plugin import PLATFORM
from xloom.jax.registration import register
from xloom.pjrt import Client
from xloom.pjrt.capi.clients import makers

_AFTER_THE_CPU = -1


def register_backend(platform: str, make_client: Callable[[int], Client]) -> None:
    """Makes `platform` known to JAX: `jax.devices(platform)`. Arrays go there by default only if `jax_platforms`
    (or `JAX_PLATFORMS`) begins with it; where that lists others alone, or not the CPU, both come after them.

    `make_client` gets the number of devices, of `XLOOM_NUM_DEVICES`, and is called when JAX first needs the platform:
    at once, if it has made its other devices already.
    Raises ValueError when there is one of that name.
    """
    if platform in (CPU, PLATFORM, *makers):
        raise ValueError(f"there is a backend {platform!r} already")
    import jax
    from jax._src import xla_bridge

    named = getattr(jax.config, "jax_platforms")  # noqa: B009 - made at run time
    if named:
        # the CPU is where JAX puts what Python callbacks and debug.print are given
        wanted = [*named.split(","), platform, CPU]
        jax.config.update("jax_platforms", ",".join(dict.fromkeys(wanted)))
    makers[platform] = make_client
    register(platform, {"backend": platform}, _AFTER_THE_CPU)
    if xla_bridge._backends:
        xla_bridge._backends[platform] = xla_bridge._init_backend(platform)
