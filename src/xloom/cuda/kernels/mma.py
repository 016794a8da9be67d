"""The instruction by which a warp multiplies 16 x 8 elements, or 8 x 8 of f64, of each type that it has (mma)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from llvmlite import ir

from xloom.codegen.emission.accumulators import Accumulator, Representation
from xloom.hlo.dtype import DType, f32, f64, s32
from xloom.llvm.types import DOUBLE, HALF, I8, I16, I32, I64, constant, register_type

ROWS, COLUMNS = 16, 8
"""Of its output, but for f64."""
BYTES = ("s8", "u8")
"""Types of one byte, which are multiplied in s32."""


class Kind(NamedTuple):
    """An element type: its bits in memory, the depth of one instruction and its name, its operands and its sums."""

    element: ir.IntType
    deep: int
    name: str
    operand: ir.Type
    kept: DType
    rows: int = ROWS
    """Of its output."""

    @property
    def sums(self) -> int:
        """What a lane has of its output."""
        return self.rows * COLUMNS // 32


KINDS: Mapping[str, Kind] = {
    "bf16": Kind(I16, 16, "m16n8k16.row.col.bf16", I32, f32),
    "f16": Kind(I16, 16, "m16n8k16.row.col.f32.f32", ir.VectorType(HALF, 2), f32),
    "tf32": Kind(I32, 8, "m16n8k8.row.col.tf32", I32, f32),
    "s8": Kind(I8, 32, "m16n8k32.row.col.s8", I32, s32),
    "u8": Kind(I8, 32, "m16n8k32.row.col.u8", I32, s32),
    "f64": Kind(I64, 4, "m8n8k4.row.col.f64", DOUBLE, f64, 8),
}


def zeros(b: ir.IRBuilder, how: Kind) -> list[Accumulator]:
    """What a lane has of sums that nothing was added to."""
    made = [Accumulator(b, Representation(how.kept)) for _ in range(how.sums)]
    for accumulator in made:
        accumulator.set(constant(0, how.kept))
    return made


def add_product(
    b: ir.IRBuilder, how: Kind, sums: Sequence[Accumulator], left: Sequence[ir.Value], right: Sequence[ir.Value]
) -> None:
    """Adds a product of what lanes have of its operands to what they have of sums."""
    register = register_type(how.kept)
    words = [w if how.operand is I32 else b.bitcast(w, how.operand) for w in (*left, *right)]
    full = f"llvm.nvvm.mma.{how.name}"
    registers = [register] * len(sums)
    signature = ir.FunctionType(ir.LiteralStructType(registers), [*[how.operand] * len(words), *registers])
    function = b.module.globals.get(full) or ir.Function(b.module, signature, full)
    made = b.call(function, [*words, *(a.get() for a in sums)])
    for number, accumulator in enumerate(sums):
        accumulator.set(b.extract_value(made, number))
