"""Transposes in registers, whole tiles and what is left at the edges."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from xloom.cpu.loops.affine import Affine, Var
from xloom.cpu.loops.nest import Stage, Store
from xloom.cpu.loops.nodes import Constant, Guard, Load, Node
from xloom.cpu.loops.tiles import crossing
from xloom.hlo.dtype import f32, from_numpy
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("dims", [(64, 96), (32, 32), (31, 100), (129, 45), (17, 16)])
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


def test_what_may_lie_outside_of_an_array_is_not_loaded_in_tiles():
    rows, columns = Var("rows", 64, number=1), Var("columns", 64, number=2)
    source = (Instruction("x", "parameter", array_shape(f32, (32, 64))), 0)
    load = Load(f32, source, Affine(0, ((rows, 1), (columns, 64))))
    first_half = Guard(f32, ((Affine(0, ((columns, 1),)), 0, 32),), load, Constant(f32, 0))

    def tiled(node: Node) -> bool:
        store = Store(source, Affine(0, ((rows, 64), (columns, 1))), node)
        return crossing(Stage([rows, columns], [store]), [rows, columns]) is not None

    assert tiled(load) and not tiled(first_half)
