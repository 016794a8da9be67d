"""Associative operators on vectors, and running folds with them."""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir

from xloom.cpu.emit.loop import allocate, loop
from xloom.cpu.emit.nest import plus
from xloom.cpu.emit.types import I32, I64, Value
from xloom.cpu.kernels.windows.folder import Folder
from xloom.hlo.dtype import DType, Kind

LANES = 16

_TYPES = frozenset({"f32", "f64", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"})


class VectorFold:
    """One operator of two elements of a type that is computed as it lies in memory."""

    def __init__(self, opcode: str, dtype: DType, kind: ir.Type):
        self.opcode, self.dtype, self.element = opcode, dtype, kind
        self.type = ir.VectorType(kind, LANES)

    @classmethod
    def of(cls, folder: Folder) -> VectorFold | None:
        """The operator that a fold applies, if it is one of these."""
