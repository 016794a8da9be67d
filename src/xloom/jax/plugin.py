"""xloom as a plugin of JAX: the platform `xloom` with `JAX_PLATFORMS=xloom`, or `cpu` with `XLOOM_AS_CPU=1`."""

from __future__ import annotations

from xloom.environment import AS_CPU
from xloom.jax.in_place_of_cpu import install_as_cpu
from xloom.jax.registration import CPU, is_registered, register

PLATFORM = "xloom"


def initialize() -> None:
    """Registers the platform, when `JAX_PLATFORMS` or `jax_platforms` names it, or in place of JAX's CPU where
    `XLOOM_AS_CPU` says so. JAX calls this for every plugin."""
    import jax

    if AS_CPU.text not in ("", "0"):
        install_as_cpu()
    named = getattr(jax.config, "jax_platforms") or ""  # noqa: B009 - made at run time
    platforms = named.split(",")
    if PLATFORM in platforms and not is_registered(PLATFORM):
        if CPU not in platforms:  # where JAX puts what Python callbacks and debug.print are given
            jax.config.update("jax_platforms", f"{named},{CPU}")
        register(PLATFORM, {}, priority=500)
