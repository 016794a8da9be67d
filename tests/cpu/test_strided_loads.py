"""What lies at equal distances is loaded element by element, what lies where indices say by gathers."""

import pytest

import xloom as xl
from xloom.cpu.printers import asm_text
from xloom.llvm.target import target_named

COLUMN = """HloModule m  ENTRY e {
  x = f64[600,40] parameter(0)  y = f64[600,40] parameter(1)  k = s32[] parameter(2)  zero = s32[] constant(0)
  a = f64[600,1] dynamic-slice(x, zero, k), dynamic_slice_sizes={600,1}
  b = f64[600,1] dynamic-slice(y, zero, k), dynamic_slice_sizes={600,1}
  ROOT c = f64[600,1] divide(a, b)
}"""
ROWS = """HloModule m  ENTRY e {
  x = f64[600] parameter(0)  y = f64[600] parameter(1)  k = s32[600] parameter(2)
  a = f64[600] gather(x, k), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,
    slice_sizes={1}
  ROOT c = f64[600] divide(a, y)
}"""


@pytest.mark.parametrize(("text", "gathers"), [(COLUMN, False), (ROWS, True)])
def test_which_loads_are_gathers(text, gathers):
    code = asm_text(xl.parse(text), target_named("x86-64-v3"))
    assert "vdivpd\t" in code
    assert ("gatherq" in code or "gatherd" in code) is gathers
