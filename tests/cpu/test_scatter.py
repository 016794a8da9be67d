import numpy as np
import pytest

import xloom as xl
import xloom.cpu.kernels
from tests.cpu.kernels import run_kernel

ADD = "add { x = {t}[] parameter(0) y = {t}[] parameter(1) ROOT z = {t}[] add(x, y) }"
SET = "add { x = {t}[] parameter(0) ROOT y = {t}[] parameter(1) }"
SUB = "add { x = {t}[] parameter(0) y = {t}[] parameter(1) s = {t}[] subtract(x, y) ROOT z = {t}[] multiply(s, s) }"
RNG = np.random.default_rng(0)


def arguments(module):
    """Random operands; indices reach a little out of bounds."""
    out = []
    for p in module.entry.parameters:
        dtype, dims = p.shape.dtype, p.shape.dims
        if p.name == "indices":
            low = 0 if dtype.kind.value == "unsigned" else -1
            out.append(RNG.integers(low, 9, dims).astype(dtype.numpy))
        elif dtype.is_complex:
            out.append((RNG.integers(-4, 4, dims) + 1j * RNG.integers(-4, 4, dims)).astype(dtype.numpy))
        else:
            low = 0 if dtype.kind.value in ("unsigned", "pred") else -2
            out.append(RNG.integers(low, 2, dims).astype(dtype.numpy))
    return out


def check(text, split=3):
    module = xl.parse(text)
    values = arguments(module)
    expected = xl.evaluate(module, *values)
    found = run_kernel(text, *values, split=split)
    if not isinstance(expected, tuple):
        expected, found = (expected,), (found,)
    for e, f in zip(expected, found, strict=True):
        np.testing.assert_array_equal(np.asarray(f).astype(np.complex128), np.asarray(e).astype(np.complex128))


def program(operand, indices, updates, attributes, region=ADD):
    dtype = operand.split("[")[0]
    return f"""HloModule m
{region.replace("{t}", dtype)}
ENTRY e {{ x = {operand} parameter(0) indices = {indices} parameter(1) u = {updates} parameter(2)
  ROOT s = {operand} scatter(x, indices, u), {attributes}, to_apply=add }}"""


FORMS = {
    "rows of many places": (
        "[20,64]",
        "s32[40,1]",
        "[40,64]",
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    "rows by two numbers": (
        "[17,8,70]",
        "s64[40,2]",
        "[40,70]",
        "update_window_dims={1}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=1",
    ),
    "columns of many places": (
        "[64,18]",
        "s32[40,1]",
        "[64,40]",
        "update_window_dims={0}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=1",
    ),
    "scalars": (
        "[8]",
        "s32[40,1]",
        "[40]",
        "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    "no vector": (
        "[8]",
        "s64[5,8]",
        "[5,8]",
        "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=2",
    ),
    "rows": (
        "[8,5]",
        "u8[11]",
        "[11,5]",
        "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    "wide rows": (
        "[8,3,70]",
        "s16[11]",
        "[11,3,70]",
        "update_window_dims={1,2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    "wide pieces": (
        "[8,3,170]",
        "s16[11]",
        "[2,11,65]",
        "update_window_dims={0,2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    "windows inside": (
        "[8,9,10]",
        "s32[2,7]",
        "[3,7,4]",
        "update_window_dims={0,2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={2,0}, index_vector_dim=0",
    ),
    "several columns": (
        "[8,9,10]",
        "u64[6,3,2]",
        "[6,5,2]",
        "update_window_dims={1}, inserted_window_dims={0,2}, scatter_dims_to_operand_dims={0,2}, index_vector_dim=1",
    ),
    "batches": (
        "[4,8,3]",
        "s32[6,4,1]",
        "[6,4,3]",
        "update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
        "scatter_indices_batching_dims={1}, index_vector_dim=2",
    ),
    "two batches": (
        "[4,8,3]",
        "s32[3,6,4,1]",
        "[3,6,4]",
        "update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0,2}, "
        "scatter_indices_batching_dims={2,0}, index_vector_dim=3",
    ),
    "no index": (
        "[8,5]",
        "s32[3,0]",
        "[3,8,5]",
        "update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, index_vector_dim=1",
    ),
    "no update": (
        "[8]",
        "s32[0,1]",
        "[0]",
        "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1",
    ),
    "scalar operand": (
        "[]",
        "s32[4,0]",
        "[4]",
        "update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, index_vector_dim=1",
    ),
}


@pytest.mark.parametrize("region", [ADD, SET, SUB], ids=["add", "set", "other"])
@pytest.mark.parametrize("form", FORMS)
def test_forms(form, region):
    operand, indices, updates, attributes = FORMS[form]
    check(program("f32" + operand, indices, "f32" + updates, attributes, region))


@pytest.mark.parametrize("region", [ADD, SET], ids=["add", "set"])
@pytest.mark.parametrize(
    "dtype", ["pred", "s4", "u2", "s8", "u16", "s64", "f8e5m2", "bf16", "f16", "f64", "c64", "c128"]
)
def test_types(dtype, region):
    operand, indices, updates, attributes = FORMS["rows"]
    check(program(dtype + operand, indices, dtype + updates, attributes, region))


def test_updates_of_another_type():
    operand, indices, updates, attributes = FORMS["rows"]
    check(program("f32" + operand, indices, "bf16" + updates, attributes, ADD))


def test_set_keeps_the_bits_of_nan():
    operand, indices, updates, attributes = FORMS["rows"]
    x, u = np.zeros((8, 5), np.uint16).view(np.float16), np.full((11, 5), 0x7C01, np.uint16).view(np.float16)
    text = program("f16" + operand, indices, "f16" + updates, attributes, SET)
    out = run_kernel(text, x, np.arange(11, dtype=np.uint8), u)
    np.testing.assert_array_equal(np.asarray(out).view(np.uint16), 0x7C01)


def test_several_operands():
    check("""HloModule m
r { a = f32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = s32[] parameter(3)
  p = pred[] compare(a, c), direction=GE  v = f32[] select(p, a, c)  w = s32[] select(p, b, d)
  ROOT t = (f32[], s32[]) tuple(v, w) }
ENTRY e { x = f32[8,4] parameter(0) y = s32[8,4] parameter(1) indices = s32[20,1] parameter(2)
  u = f32[20,4] parameter(3) v = s32[20,4] parameter(4)
  ROOT s = (f32[8,4], s32[8,4]) scatter(x, y, indices, u, v), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=r }""")


@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_extrema_of_floats(opcode, dtype):
    region = ADD.replace("add(x", f"{opcode}(x")
    operand, indices, _, attributes = FORMS["scalars"]
    text = program(dtype + operand, indices.replace("40", "300"), dtype + "[300]", attributes, region)
    module = xl.parse(text)
    kind = module.entry.root.shape.dtype.numpy
    x = np.array([0.0, -0.0, np.nan, -np.nan, 1.0, -np.inf, np.inf, -0.0]).astype(kind)
    places = RNG.integers(0, 8, (300, 1)).astype(np.int32)
    values = RNG.choice([0.0, -0.0, 1.0, -1.0], 300).astype(kind)
    values[RNG.integers(0, 300, 2)] = np.nan
    expected, found = np.asarray(xl.evaluate(module, x, places, values)), run_kernel(text, x, places, values)
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(expected)[number])
