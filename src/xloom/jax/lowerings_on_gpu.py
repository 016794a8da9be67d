"""What JAX lowers to loops for the CPU, and to calls for GPUs that have kernels of ours."""

from __future__ import annotations

from typing import Any


def lower_pivots(platform: str) -> None:
    """Gives the platform a call for the order of rows that LU's pivots make."""
    import jax
    from jax._src.interpreters import mlir
    from jax.lax import linalg

    call = jax.ffi.ffi_lowering("cu_lu_pivots_to_permutation")

    def lowering(context: Any, pivots: Any, *, permutation_size: int) -> Any:
        return call(context, pivots)

    mlir.register_lowering(linalg.lu_pivots_to_permutation_p, lowering, platform=platform)
