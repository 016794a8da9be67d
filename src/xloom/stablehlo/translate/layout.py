"""Constants, and operations that move elements."""

from __future__ import annotations

from typing import Any

from xloom.hlo.attributes import PaddingDimension, SliceDimension
from xloom.hlo.shape import Shape
from xloom.stablehlo.translate.rules import rule
from xloom.stablehlo.translate.scope import Scope
from xloom.stablehlo.translate.types import ints, literal


@rule("stablehlo.constant", attributes="value")
def _constant(s: Scope, op: Any) -> None:
    (result,) = op.results
    shape = s.shape(result)
    value, is_splat = literal(op.operation, shape)
    constant = s.add("constant", value.shape, (), {"literal": value}, "constant")
    if is_splat:
        constant = s.add("broadcast", shape, [constant], {"dimensions": ()}, "broadcast")
    s.define(result, constant)


@rule("stablehlo.iota", attributes="iota_dimension")
def _iota(s: Scope, op: Any) -> None:
    s.emit(op, "iota", {"iota_dimension": op.operation.attributes["iota_dimension"].value})


@rule("stablehlo.broadcast_in_dim", attributes="broadcast_dimensions")
def _broadcast_in_dim(s: Scope, op: Any) -> None:
    dims = ints(op.operation.attributes["broadcast_dimensions"])
    (x,) = s.values(op.operands)
    (result,) = op.results
    wanted = s.shape(result)
    kept = [k for k, d in enumerate(dims) if x.shape.dims[k] == wanted.dims[d]]
    if len(kept) < len(dims):  # HLO's broadcast repeats whole dimensions: those of size 1 that grow are left out before
        narrow = Shape(x.shape.dtype, tuple(x.shape.dims[k] for k in kept)).with_default_layout()
        x = s.add("reshape", narrow, [x])
    s.emit(op, "broadcast", {"dimensions": tuple(dims[k] for k in kept)}, [x])


@rule("stablehlo.reshape")
def _reshape(s: Scope, op: Any) -> None:
    s.emit(op, "reshape")


@rule("stablehlo.bitcast_convert")
def _bitcast_convert(s: Scope, op: Any) -> None:
    s.emit(op, "bitcast-convert")


@rule("stablehlo.transpose", attributes="permutation")
def _transpose(s: Scope, op: Any) -> None:
    s.emit(op, "transpose", {"dimensions": ints(op.operation.attributes["permutation"])})


@rule("stablehlo.reverse", attributes="dimensions")
def _reverse(s: Scope, op: Any) -> None:
    s.emit(op, "reverse", {"dimensions": ints(op.operation.attributes["dimensions"])})


@rule("stablehlo.concatenate", attributes="dimension")
def _concatenate(s: Scope, op: Any) -> None:
    s.emit(op, "concatenate", {"dimensions": (op.operation.attributes["dimension"].value,)})


@rule("stablehlo.slice", attributes="start_indices limit_indices strides")
def _slice(s: Scope, op: Any) -> None:
    attributes = op.operation.attributes
    rows = zip(*(attributes[name] for name in ("start_indices", "limit_indices", "strides")), strict=True)
    s.emit(op, "slice", {"slice": tuple(SliceDimension(*row) for row in rows)})


@rule("stablehlo.pad", attributes="edge_padding_low edge_padding_high interior_padding")
def _pad(s: Scope, op: Any) -> None:
    attributes = op.operation.attributes
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    rows = zip(*(attributes[name] for name in names), strict=True)
    s.emit(op, "pad", {"padding": tuple(PaddingDimension(*row) for row in rows)})
