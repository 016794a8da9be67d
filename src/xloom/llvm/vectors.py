"""Vectors of LLVM's scalar types: their types, constants, lanes and masks."""

from __future__ import annotations

from llvmlite import ir

from xloom.llvm.folding_builder import Zeros
from xloom.llvm.types import I1, I32, i64


def like(model: ir.Type, element: ir.Type) -> ir.Type:
    """`element`, or a vector of as many as `model` has."""
    return ir.VectorType(element, model.count) if isinstance(model, ir.VectorType) else element


class _Splat(ir.Constant):
    """One number in every lane, written once: llvmlite would write each."""

    def _get_reference(self) -> str:
        return f"splat ({self.constant[0]})"


class _Poison(ir.Constant):
    """Lanes that nobody reads, in a word: llvmlite would write each."""

    def _get_reference(self) -> str:
        return "poison"


def uniform(kind: ir.Type, value: float) -> ir.Constant:
    """A number of a scalar type, or in every lane of a vector type."""
    return (_Splat if isinstance(kind, ir.VectorType) else ir.Constant)(kind, value)


def splat(b: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """A scalar in every lane."""
    if lanes == 1:
        return value
    one = b.insert_element(_Poison(ir.VectorType(value.type, lanes), None), value, I32(0))
    return b.shuffle_vector(one, one, Zeros(ir.VectorType(I32, lanes), [0] * lanes))


def shuffled(b: ir.IRBuilder, value: ir.Value, lanes: object, other: ir.Value | None = None) -> ir.Value:
    """The named lanes of a vector, or of two vectors one after the other."""
    picks = list(lanes)  # type: ignore[call-overload]
    return b.shuffle_vector(value, value if other is None else other, constant_vector(picks))


def constant_vector(values: list[int], element: ir.Type = I32) -> ir.Constant:
    """A constant vector of integers."""
    return ir.Constant(ir.VectorType(element, len(values)), values)


def first_lanes(lanes: int, valid: int) -> ir.Constant:
    """A mask that is true in the first `valid` lanes."""
    return constant_vector([int(k < valid) for k in range(lanes)], I1)


def lanes_below(b: ir.IRBuilder, lanes: int, limit: ir.Value) -> ir.Value:
    """A mask that is true in the lanes whose number is less than `limit` (i64, not below -2**31)."""
    few = b.select(b.icmp_signed("<", limit, i64(lanes)), limit, i64(lanes))
    return b.icmp_signed("<", constant_vector(list(range(lanes))), splat(b, b.trunc(few, I32), lanes))
