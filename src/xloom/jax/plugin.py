"""xloom as a plugin of JAX: the platforms `xloom` and `xloom_cuda`, named by `JAX_PLATFORMS`, or `cpu` itself."""

from __future__ import annotations

from xloom.cuda.names import PJRT_PLATFORM
from xloom.environment import AS_CPU
from xloom.jax.denormals import flushes_denormals
from xloom.jax.in_place_of_cpu import install_as_cpu
from xloom.jax.inherited_rules import CPU
from xloom.jax.registration import is_registered, register

PLATFORM = "xloom"


def initialize() -> None:
    """Registers the platforms that `JAX_PLATFORMS` or `jax_platforms` names, or one in place of JAX's CPU where
    `XLOOM_AS_CPU` says so. JAX calls this for every plugin."""
    import jax

    if AS_CPU.text not in ("", "0"):
        install_as_cpu()
    named = getattr(jax.config, "jax_platforms") or ""  # noqa: B009 - made at run time
    platforms = named.split(",")
    wanted = [name for name in (PLATFORM, PJRT_PLATFORM) if name in platforms and not is_registered(name)]
    if wanted and CPU not in platforms:  # where JAX puts what Python callbacks and debug.print are given
        jax.config.update("jax_platforms", f"{named},{CPU}")
    for name in wanted:
        register(name, _options if name == PLATFORM else {"backend": name}, priority=500)


def _options() -> dict[str, bool]:
    return {"flushes_denormals": flushes_denormals(by_itself=False)}
