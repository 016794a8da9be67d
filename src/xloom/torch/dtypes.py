"""Element types: torch's and HLO's, which are one to one."""

from __future__ import annotations

import torch

from xloom.errors import UnsupportedError
from xloom.hlo import dtype as dt
from xloom.hlo.dtype import DType

TO_TORCH: dict[DType, torch.dtype] = {
    dt.pred: torch.bool,
    dt.u8: torch.uint8,
    dt.u16: torch.uint16,
    dt.u32: torch.uint32,
    dt.u64: torch.uint64,
    dt.s8: torch.int8,
    dt.s16: torch.int16,
    dt.s32: torch.int32,
    dt.s64: torch.int64,
    dt.f16: torch.float16,
    dt.bf16: torch.bfloat16,
    dt.f32: torch.float32,
    dt.f64: torch.float64,
    dt.c64: torch.complex64,
    dt.c128: torch.complex128,
    dt.f8e4m3fn: torch.float8_e4m3fn,
    dt.f8e5m2: torch.float8_e5m2,
    dt.f8e4m3fnuz: torch.float8_e4m3fnuz,
    dt.f8e5m2fnuz: torch.float8_e5m2fnuz,
}
FROM_TORCH: dict[torch.dtype, DType] = {theirs: ours for ours, theirs in TO_TORCH.items()}


def hlo_dtype(dtype: torch.dtype) -> DType:
    """The element type of a torch dtype. Raises UnsupportedError when HLO has none (quantised types, complex32)."""
    found = FROM_TORCH.get(dtype)
    if found is None:
        raise UnsupportedError(f"{dtype} has no HLO element type", hint="convert the tensor first: x.to(torch.float32)")
    return found


def torch_dtype(dtype: DType) -> torch.dtype:
    """The torch dtype of an element type. Raises UnsupportedError when torch has none."""
    found = TO_TORCH.get(dtype)
    if found is None:
        hint = "convert the result to a type that torch has before it leaves the program"
        raise UnsupportedError(f"torch has no dtype for {dtype.name}", hint=hint)
    return found
