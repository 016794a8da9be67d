"""What a reduction starts from: the element that changes no other one."""

from __future__ import annotations

from xloom.hlo import dtype as dt
from xloom.torch.lowering.graph import Number

_NEUTRAL = {"sum": 0, "prod": 1, "mean": 0, "amax": float("-inf"), "amin": float("inf")}


def identity_value(how: str, dtype: dt.DType) -> Number:
    """What a reduction starts from."""
    if how in ("amax", "amin") and not dtype.is_float:
        if dtype is dt.pred:
            return how == "amin"
        bits = dtype.bits - (dtype.kind is dt.Kind.SIGNED)
        least = -(1 << bits) if dtype.kind is dt.Kind.SIGNED else 0
        return least if how == "amax" else (1 << bits) - 1
    return _NEUTRAL[how]
