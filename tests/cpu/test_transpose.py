"""Transposes in registers, whole tiles and what is left at the edges."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nest import LoopBody, Store
from xloom.codegen.loop_ir.nodes import Constant, If, Load, Node
from xloom.codegen.loop_ir.strided_loads import strided_loads
from xloom.cpu.loops import tiled_transpose
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.cpu.printers import loops_text
from xloom.hlo.dtype import f32, from_numpy
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.llvm.target import process_target


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("dims", [(64, 96), (32, 32), (31, 100), (129, 45), (17, 16), (500, 12), (12, 500), (24, 300)])
def test_transpose(dtype, dims):
    x = np.random.default_rng(0).integers(-99, 99, dims).astype(dtype)
    name = from_numpy(dtype).name
    result = xl.compile(
        xl.parse(f"""
HloModule m
ENTRY e {{
  x = {name}[{dims[0]},{dims[1]}] parameter(0)
  ROOT t = {name}[{dims[1]},{dims[0]}] transpose(x), dimensions={{1,0}}
}}""")
    )(x)
    np.testing.assert_array_equal(result, x.T)


@pytest.mark.parametrize(
    ("dtype", "rows", "columns"), [(np.float32, 2064, 1600), (np.float32, 1601, 2096), (np.uint8, 4160, 3250)]
)
def test_transposes_that_go_around_the_caches(dtype, rows, columns):
    """Of several blocks, and a part of one, along each dimension; as they are and with arithmetic."""
    random = np.random.default_rng(0)
    x, y = (random.integers(0, 100, dims).astype(dtype) for dims in [(rows, columns), (columns, rows)])
    name = from_numpy(dtype).name
    module = xl.parse(f"""
HloModule m
ENTRY e {{
  x = {name}[{rows},{columns}] parameter(0)
  y = {name}[{columns},{rows}] parameter(1)
  t = {name}[{columns},{rows}] transpose(x), dimensions={{1,0}}
  s = {name}[{columns},{rows}] add(t, y)
  ROOT r = ({name}[{columns},{rows}], {name}[{columns},{rows}]) tuple(t, s)
}}""")
    turned, total = xl.compile(module)(x, y)
    np.testing.assert_array_equal(turned, x.T)
    np.testing.assert_array_equal(total, x.T + y)


@pytest.mark.parametrize(("rows", "columns"), [(256, 512), (265, 501)])
def test_transposes_that_stay_in_a_far_cache(monkeypatch, rows, columns):
    """In blocks of their own, as arrays of several megabytes are; as they are and with arithmetic."""
    monkeypatch.setattr(tiled_transpose, "FAR", 0)
    x = np.random.default_rng(0).integers(-99, 99, (rows, columns)).astype(ml_dtypes.bfloat16)
    for operation, expected in (("copy(t)", x.T), ("negate(t)", np.negative(x.T))):
        module = xl.parse(f"""
HloModule m
ENTRY e {{
  x = bf16[{rows},{columns}] parameter(0)
  t = bf16[{columns},{rows}] transpose(x), dimensions={{1,0}}
  ROOT r = bf16[{columns},{rows}] {operation}
}}""")
        np.testing.assert_array_equal(xl.compile(module)(x), expected)


def test_what_may_lie_outside_of_an_array_is_not_loaded_in_tiles():
    rows, columns = Var("rows", 64, number=1), Var("columns", 64, number=2)
    source = (Instruction("x", "parameter", array_shape(f32, (32, 64))), 0)
    load = Load(f32, source, Affine(0, ((rows, 1), (columns, 64))))
    first_half = If(f32, ((Affine(0, ((columns, 1),)), 0, 32),), load, Constant(f32, 0))

    def tiled(node: Node) -> bool:
        store = Store(source, Affine(0, ((rows, 64), (columns, 1))), node)
        return strided_loads(LoopBody([rows, columns], [store]), [rows, columns]) is not None

    assert tiled(load) and not tiled(first_half)


def test_transposes_that_are_parts_of_an_array_are_made_in_tiles_before():
    module = xl.parse("""
HloModule m
ENTRY e {
  x = f32[70,90] parameter(0)
  y = f32[90,70] parameter(1)
  t = f32[90,70] transpose(x), dimensions={1,0}
  n = f32[90,70] negate(t)
  ROOT c = f32[90,140] concatenate(n, y), dimensions={1}
}""")
    assert "makes %t f32[90,70]" in loops_text(module)
    x, y = (np.random.default_rng(k).standard_normal(dims, np.float32) for k, dims in enumerate([(70, 90), (90, 70)]))
    np.testing.assert_array_equal(xl.compile(module)(x, y), np.concatenate([-x.T, y], 1))


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64])
@pytest.mark.parametrize("dims", [(64, 96), (31, 100), (17, 16)])
@pytest.mark.parametrize("dimension", [0, 1])
def test_a_transpose_that_is_reversed(dtype, dims, dimension):
    x = np.random.default_rng(0).integers(-99, 99, dims).astype(dtype)
    name = from_numpy(dtype).name
    module = xl.parse(f"""
HloModule m
ENTRY e {{
  x = {name}[{dims[0]},{dims[1]}] parameter(0)
  t = {name}[{dims[1]},{dims[0]}] transpose(x), dimensions={{1,0}}
  ROOT r = {name}[{dims[1]},{dims[0]}] reverse(t), dimensions={{{dimension}}}
}}""")
    np.testing.assert_array_equal(xl.compile(module)(x), np.flip(x.T, dimension))
    if dimension == 0:
        assert "in square tiles" in loops_text(module)


def test_a_transpose_of_a_reshape_that_cuts_rows_is_made_in_tiles():
    module = xl.parse("""
HloModule m
ENTRY e {
  x = f32[256,128] parameter(0)
  r = f32[8,16,4,64] reshape(x)
  ROOT t = f32[8,64,16,4] transpose(r), dimensions={0,3,1,2}
}""")
    assert "in square tiles" in loops_text(module)
    x = np.random.default_rng(0).standard_normal((256, 128), np.float32)
    np.testing.assert_array_equal(xl.compile(module)(x), x.reshape(8, 16, 4, 64).transpose(0, 3, 1, 2))


@pytest.mark.parametrize(("rows", "whole"), [(512, True), (520, False)])
def test_only_tiles_that_are_not_whole_go_element_by_element(rows, whole):
    text = f"HloModule m\nENTRY e {{ p = f32[{rows},512] parameter(0) ROOT r = f32[512,{rows}] transpose(p), "
    _, _, program = lowered(prepared(xl.parse(text + "dimensions={1,0} }")), process_target())
    (kernel_module,) = program.modules.values()
    assert ("c.head" not in kernel_module.text) == whole


def test_rows_that_begin_where_data_say():
    """Each row of a tile has a start of its own, so that it has no base."""
    module = xl.parse("""
HloModule m
ENTRY e {
  x = f32[13,100] parameter(0)
  starts = s32[13,1] parameter(1)
  t = f32[100,13] transpose(x), dimensions={1,0}
  ROOT g = f32[54,13] gather(t, starts), offset_dims={0}, collapsed_slice_dims={}, start_index_map={0},
    operand_batching_dims={1}, start_indices_batching_dims={0}, index_vector_dim=1, slice_sizes={54,1}
}""")
    x = np.random.default_rng(0).standard_normal((13, 100)).astype(np.float32)
    starts = np.arange(13, dtype=np.int32)[:, None] * 3
    want = np.stack([row[s : s + 54] for row, s in zip(x, starts[:, 0], strict=True)], axis=1)
    np.testing.assert_array_equal(xl.compile(module)(x, starts), want)
