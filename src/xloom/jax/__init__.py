"""xloom inside JAX: the platform `xloom`, and passes inside stock XLA. Needs the extra `jax`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xloom.jax.plugin import initialize

if TYPE_CHECKING:
    from xloom.jax.hlo_passes import UsePasses, use_passes

__all__ = ["UsePasses", "initialize", "use_passes"]


def __getattr__(name: str) -> Any:
    # JAX imports this module whenever it starts, mostly to learn that it is not asked for
    if name not in ("UsePasses", "use_passes"):
        raise AttributeError(f"module 'xloom.jax' has no attribute {name!r}")
    from xloom.jax import hlo_passes

    return getattr(hlo_passes, name)
