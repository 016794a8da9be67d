"""Backends of one's own as platforms of JAX."""

from __future__ import annotations

from collections.abc import Callable

from xloom.jax.plugin import PLATFORM
from xloom.jax.registration import CPU, register
from xloom.pjrt import Client
from xloom.pjrt.capi.clients import makers

_AFTER_THE_CPU = -1


def register_backend(platform: str, make_client: Callable[[int], Client]) -> None:
    """Makes `platform` known to JAX: `jax.devices(platform)`, or `jax.config.update("jax_platforms", platform)`.

    It is JAX's default platform only if `jax_platforms` says so.

    `make_client` gets the number of devices, of `XLOOM_NUM_DEVICES`, and is called when JAX first needs the platform.
    Raises ValueError when there is one of that name.
    """
    if platform in (CPU, PLATFORM, *makers):
        raise ValueError(f"there is a backend {platform!r} already")
    makers[platform] = make_client
    register(platform, {"backend": platform}, _AFTER_THE_CPU)
