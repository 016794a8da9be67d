"""What is measured: JAX functions with their arguments, a family a file."""

from benchmarks.programs import (
    convolution,
    dispatch,
    elementwise,
    indexing,
    layout,
    linalg,
    loops,
    matmul,
    pooling,
    random,
    reduction,
    scan,
    simulation,
    sorting,
    training,
)
from benchmarks.programs.registry import PROGRAMS, Program

__all__ = [
    "PROGRAMS",
    "Program",
    "convolution",
    "dispatch",
    "elementwise",
    "indexing",
    "layout",
    "linalg",
    "loops",
    "matmul",
    "pooling",
    "random",
    "reduction",
    "scan",
    "simulation",
    "sorting",
    "training",
]
