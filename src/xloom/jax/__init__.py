"""xloom inside JAX: the platform `xloom` or `cpu`, backends of one's own, and passes inside stock XLA.

Needs the extra `jax`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xloom.jax.plugin import initialize
from xloom.lazy_attributes import lazy_attributes

if TYPE_CHECKING:
    from xloom.jax.backends import register_backend
    from xloom.jax.hlo_passes import UsePasses, use_passes
    from xloom.jax.in_place_of_cpu import install_as_cpu
    from xloom.pjrt.recompiles import recompiles

__all__ = ["UsePasses", "initialize", "install_as_cpu", "recompiles", "register_backend", "use_passes"]

# JAX imports this module whenever it starts, mostly to learn that it is not asked for
_LAZY = {
    "UsePasses": "xloom.jax.hlo_passes",
    "use_passes": "xloom.jax.hlo_passes",
    "recompiles": "xloom.pjrt.recompiles",
    "register_backend": "xloom.jax.backends",
    "install_as_cpu": "xloom.jax.in_place_of_cpu",
}

__getattr__ = lazy_attributes(__name__, _LAZY)
