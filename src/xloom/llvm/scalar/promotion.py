"""Scalar computations applied to values of other element types than their parameters', as XLA allows of reducers."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.hlo.computation import Computation
from xloom.hlo.dtype import DType
from xloom.llvm.scalar import elementwise  # noqa: F401 - registers the scalar rules
from xloom.llvm.scalar.conversion import converted
from xloom.llvm.scalar.scalar_computation import apply
from xloom.llvm.types import Value


def apply_promoted(
    b: ir.IRBuilder,
    computation: Computation,
    arguments: Sequence[Value],
    sources: Sequence[DType],
    targets: Sequence[DType],
) -> list[Value]:
    """`apply`, with arguments of `sources` converted to the parameters' types, and results to `targets`."""
    parameters = [p.shape.dtype for p in computation.parameters]
    inside = [converted(b, v, s, p) for v, s, p in zip(arguments, sources, parameters, strict=True)]
    out = apply(b, computation, inside)
    shape = computation.root.shape
    results = [s.dtype for s in (shape.elements if shape.is_tuple else (shape,))]
    return [converted(b, v, r, t) for v, r, t in zip(out, results, targets, strict=True)]
