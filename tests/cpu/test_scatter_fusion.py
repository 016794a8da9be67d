"""Scatters that compute their indices and updates themselves."""

import numpy as np
import pytest

import xloom as xl
from tests.cpu.test_scatter import arguments
from xloom.cpu.prepare import prepared

HEAD = """HloModule m
sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
ENTRY e {
  table = f32[9,20] parameter(0)
  from = s32[30,1] parameter(1)
  to = s64[30,1] parameter(2)
  sums = f32[7,20] parameter(3)
  zero = f32[] constant(0)
  zeros = f32[7,20] broadcast(zero), dimensions={}
  rows = f32[30,20] gather(table, from), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,20}
"""
ROWS = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"
NORMAL = """
  none = s64[] constant(0)
  nones = s64[30,1] broadcast(none), dimensions={}
  count = s64[] constant(7)
  counts = s64[30,1] broadcast(count), dimensions={}
  is_negative = pred[30,1] compare(to, nones), direction=LT
  from_end = s64[30,1] add(to, counts)
  index = s64[30,1] select(is_negative, from_end, to)
"""


def given(text):
    """Arguments, with places outside among the indices."""
    values = arguments(xl.parse(text))
    rng = np.random.default_rng(0)
    values[1][:], values[2][:] = rng.integers(-2, 11, values[1].shape), rng.integers(-9, 10, values[2].shape)
    return values


@pytest.mark.parametrize(
    ("body", "inside"),
    [
        (f"ROOT r = f32[7,20] scatter(zeros, to, rows), {ROWS}, to_apply=sum", "gather"),
        (f"{NORMAL} ROOT r = f32[7,20] scatter(sums, index, rows), {ROWS}, to_apply=sum", "gather select"),
        (
            "column = s64[30,20,1] broadcast(to), dimensions={0,2}\n"
            "other = s64[30,20,1] iota(), iota_dimension=1\n"
            "index = s64[30,20,2] concatenate(column, other), dimensions={2}\n"
            "ROOT r = f32[7,20] scatter(sums, index, rows), update_window_dims={}, inserted_window_dims={0,1},"
            " scatter_dims_to_operand_dims={0,1}, index_vector_dim=2, to_apply=sum",
            "concatenate iota",
        ),
        (  # what is changed is read elsewhere: it is not changed where it lies
            "other = f32[30,20] gather(sums, from), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},"
            f" index_vector_dim=1, slice_sizes={{1,20}} ROOT r = f32[7,20] scatter(sums, to, other), {ROWS}, to_apply=sum",
            "gather",
        ),
        (  # the same number for each
            "one = f32[] constant(1) ones = f32[30] broadcast(one), dimensions={} counts = f32[7] parameter(4)"
            " ROOT r = f32[7] scatter(counts, to, ones), update_window_dims={}, inserted_window_dims={0},"
            " scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum",
            "broadcast",
        ),
    ],
)
def test_operands_are_computed_for_each_update(body, inside):
    text = f"{HEAD}{body}\n}}\n"
    (fusion,) = [i for i in prepared(xl.parse(text)).instructions if i.opcode == "fusion"]
    assert {*inside.split(), "scatter"} <= {i.opcode for i in fusion["calls"]}
    values = given(text)
    np.testing.assert_allclose(
        np.asarray(xl.compile(xl.parse(text))(*values)), xl.evaluate(xl.parse(text), *values), rtol=1e-5, atol=1e-5
    )


def test_index_vectors_without_elements():
    """All updates are of the first window."""
    text = """HloModule m
sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
ENTRY e {
  x = f32[5,4] parameter(0)
  indices = s32[3,0] parameter(1)
  rows = f32[3,1,2] parameter(2)
  twice = f32[3,1,2] add(rows, rows)
  ROOT r = f32[5,4] scatter(x, indices, twice), update_window_dims={1,2}, inserted_window_dims={},
    scatter_dims_to_operand_dims={}, index_vector_dim=1, to_apply=sum
}
"""
    values = arguments(xl.parse(text))
    np.testing.assert_array_equal(xl.compile(xl.parse(text))(*values), xl.evaluate(xl.parse(text), *values))
