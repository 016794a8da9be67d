"""How wide the panels are in which products best find a matrix that stays as it is: as wide as their tiles.

A product of such a matrix is one of [columns / width, depth, width]: `Packing.lies_in_panels` knows it. Nothing is then
packed for each product, and what comes from memory is fetched while something else is multiplied.
"""

from __future__ import annotations

from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.tile import fitting
from xloom.hlo.dtype import f32
from xloom.llvm.target import Target

_FEW_ROWS = 32
"""So few that memory takes the time however the matrix lies."""
_SHARE = 4
"""Of the second cache: matrices of no more than such a part are read where they lie."""


def useful_width(rows: int, depth: int, columns: int, target: Target) -> int:
    """How many columns of a matrix of f32 a panel should have; 0 where there should be none."""
    if rows <= _FEW_ROWS or depth * columns * f32.bytes <= target.caches.second // _SHARE:
        return 0
    arithmetic = Arithmetic(f32, target)
    width = fitting(arithmetic, rows, columns, arithmetic.most_sums).columns
    return width if columns > width and columns % width == 0 else 0
