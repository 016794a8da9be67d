"""Long sums of small results, whose depth threads share."""

import numpy as np
import pytest

import xloom as xl
from xloom.cpu.printers import schedule_text

GRAM = """
HloModule gram
ENTRY e {
  x = TYPE[ROWS,COLUMNS] parameter(0)
  ROOT y = TYPE[COLUMNS,COLUMNS] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
"""


def gram(dtype: str, rows: int, columns: int) -> xl.Module:
    return xl.parse(GRAM.replace("TYPE", dtype).replace("ROWS", str(rows)).replace("COLUMNS", str(columns)))


@pytest.mark.parametrize(
    ("dtype", "rows", "columns"),
    [("f32", 50_000, 12), ("f64", 49_000, 20), ("c64", 20_000, 17), ("bf16", 32_768, 33), ("s32", 65_536, 9)],
)
def test_values(dtype, rows, columns):
    module, random = gram(dtype, rows, columns), np.random.default_rng(0)
    kind = module.entry.parameters[0].shape.dtype.numpy
    x = random.integers(-1, 2, (rows, columns)).astype(kind)  # sums are exact
    wide = x.astype(np.complex128 if dtype == "c64" else np.float64)
    np.testing.assert_array_equal(
        xl.compile(module)(x).astype(wide.dtype), (wide.T @ wide).astype(kind).astype(wide.dtype)
    )


def test_threads_share_the_depth():
    assert "16 items shared among threads" in schedule_text(gram("f32", 64_000, 16))
    assert "shared among threads" not in schedule_text(gram("f32", 1_000, 16))
