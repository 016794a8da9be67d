"""StableHLO and CHLO programs into HLO modules, through jaxlib's MLIR bindings and converter (extra `jax`)."""

from xloom.stablehlo.convert import from_stablehlo

__all__ = ["from_stablehlo"]
