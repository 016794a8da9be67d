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

SCATTER = """HloModule m  new { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }  ENTRY e {
  x = f32[600] parameter(0)  k = s32[600] parameter(1)  y = f32[600] parameter(2)
  ROOT s = f32[600] scatter(x, k, y), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
    index_vector_dim=1, to_apply=new
}"""


@pytest.mark.parametrize(("text", "gathers"), [(COLUMN, False), (ROWS, True)])
def test_which_loads_are_gathers(text, gathers):
    code = asm_text(xl.parse(text), target_named("x86-64-v3"))
    assert "vdivpd\t" in code
    assert ("gatherq" in code or "gatherd" in code) is gathers


@pytest.mark.parametrize(("target", "vectors"), [("x86-64-v3", False), ("x86-64-v4", True)])
def test_scattered_elements_are_vectors_where_an_instruction_scatters(target, vectors):
    code = asm_text(xl.parse(SCATTER), target_named(target))
    assert ("vpscatter" in code or "vscatter" in code) is vectors
    assert vectors or "vpextr" not in code
