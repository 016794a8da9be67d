"""Elements of tables, at places that the program computes."""

import numpy as np
import pytest

import xloom as xl
from xloom.cpu.printers import llvm_text
from xloom.cpu.printers.kernel_choices import kernel_choices_text
from xloom.hlo.dtype import DTYPES
from xloom.llvm.target import process_target


def looked_up(dtype: str, indices: str, size: int) -> xl.Module:
    return xl.parse(f"""HloModule m
    ENTRY e {{
      t = {dtype}[200] parameter(0)
      i = {indices}[{size}] parameter(1)
      ROOT r = {dtype}[{size}] gather(t, i), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
        index_vector_dim=1, slice_sizes={{1}}
    }}""")


@pytest.mark.parametrize("indices", ["u8", "s32"])
@pytest.mark.parametrize("dtype", ["u8", "s16", "pred", "f8e5m2", "bf16", "f16", "f32", "c64"])
@pytest.mark.parametrize("size", [7, 5000])
def test_of_every_width(dtype, indices, size):
    # few of them have vectors that are gathered: others are picked one by one
    generator = np.random.default_rng(0)
    table = generator.integers(0, 2 if dtype == "pred" else 100, 200).astype(DTYPES[dtype].numpy)
    places = generator.integers(0, 256, size).astype(DTYPES[indices].numpy)
    module = looked_up(dtype, indices, size)
    np.testing.assert_array_equal(xl.compile(module)(table, places), table[np.minimum(places, 199)])


@pytest.mark.parametrize(("dtype", "is_picked"), [("u8", True), ("bf16", True), ("f32", False)])
def test_one_by_one_where_none_are_gathered(dtype, is_picked):
    text = kernel_choices_text(looked_up(dtype, "u8", 5000), [], process_target())
    assert ("one element after the other" in text) == is_picked


def test_of_a_few_arrays_without_branches():
    """Which one it is that data ask for is foreseen by no processor: all are loaded where each has the element."""
    module = xl.parse("""HloModule m
    ENTRY e {
      a = f32[1,300,70] parameter(0)
      b = f32[1,300,70] parameter(1)
      c = f32[1,300,70] parameter(2)
      all = f32[3,300,70] concatenate(a, b, c), dimensions={0}
      at = s32[300,70,1] parameter(3)
      row = s32[300,70,1] iota(), iota_dimension=0
      column = s32[300,70,1] iota(), iota_dimension=1
      places = s32[300,70,3] concatenate(at, row, column), dimensions={2}
      ROOT r = f32[300,70] gather(all, places), offset_dims={}, collapsed_slice_dims={0,1,2}, start_index_map={0,1,2},
        index_vector_dim=2, slice_sizes={1,1,1}
    }""")
    generator = np.random.default_rng(0)
    arrays = generator.normal(size=(3, 1, 300, 70)).astype(np.float32)
    at = generator.integers(-1, 5, (300, 70, 1)).astype(np.int32)
    expected = np.take_along_axis(arrays[:, 0], np.clip(at[..., 0], 0, 2)[None], 0)[0]
    np.testing.assert_array_equal(xl.compile(module)(*arrays, at), expected)
    assert ".if" not in llvm_text(module)
