"""xloom inside JAX. Needs the extra `jax`."""

from xloom.jax.hlo_passes import UsePasses, use_passes

__all__ = ["UsePasses", "use_passes"]
