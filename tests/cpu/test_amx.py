"""Products by AMX's tiles: what they are made of on any machine, values where there are tiles."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from tests.cpu.kernels import run_kernel
from tests.cpu.test_dot import check, same
from xloom.cpu.kernels.matmul import amx_product
from xloom.cpu.printers import asm_text
from xloom.llvm.target import host_level, target_named

ROWS_BY_COLUMNS = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
LAYOUTS = {
    "nn": (lambda m, k, n: ((m, k), (k, n)), ROWS_BY_COLUMNS),
    "nt": (lambda m, k, n: ((m, k), (n, k)), "lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
    "tn": (lambda m, k, n: ((k, m), (k, n)), "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    "tt": (lambda m, k, n: ((k, m), (n, k)), "lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
}
BATCHED = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims="
has_tiles = pytest.mark.skipif(not host_level().has_tiles, reason="no AMX, or a process may not use it")


def assembly(text, target):
    return asm_text(xl.parse(text), target_named(target))


def product(types, m, k, n):
    return (
        f"HloModule m\nENTRY e {{\n a = {types[0]}[{m},{k}] parameter(0)\n b = {types[1]}[{k},{n}] parameter(1)\n"
        f" ROOT d = {types[2]}[{m},{n}] dot(a, b), {ROWS_BY_COLUMNS}\n}}"
    )


@pytest.mark.parametrize(
    "types,instruction",
    [
        (("bf16", "bf16", "f32"), "tdpbf16ps"),
        (("s8", "s8", "s32"), "tdpbssd"),
        (("s8", "u8", "s32"), "tdpbsud"),
        (("u8", "s8", "s32"), "tdpbusd"),
        (("u8", "u8", "s32"), "tdpbuud"),
    ],
    ids=lambda x: "-".join(x) if isinstance(x, tuple) else x,
)
def test_instructions(types, instruction):
    text = assembly(product(types, 64, 64, 64), "x86-64-v4-amx")
    assert f"\t{instruction}\t" in text and "\ttilerelease" in text
    assert "\ttdp" not in assembly(product(types, 64, 64, 64), "x86-64-v4-fp16")


def test_what_has_no_tiles():
    large, kinds = (64, 64, 64), (("f32",) * 3, ("s8", "s8", "f32"), ("bf16", "s8", "f32"))
    for types, sizes in [(k, large) for k in kinds] + [(("bf16",) * 3, (8, 64, 64)), (("bf16",) * 3, (16, 16, 16))]:
        assert "\ttdp" not in assembly(product(types, *sizes), "x86-64-v4-amx")


@has_tiles
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "types", [("bf16", "bf16", "bf16"), ("bf16", "bf16", "f32"), ("s8", "s8", "s32")], ids="-".join
)
@pytest.mark.parametrize("m,k,n", [(64, 64, 64), (16, 300, 16), (33, 65, 47), (100, 31, 700), (530, 70, 290)])
def test_values(layout, types, m, k, n):
    shapes, attributes = LAYOUTS[layout]
    check(*shapes(m, k, n), (m, n), attributes, types)


@has_tiles
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("types", [("bf16", "bf16", "bf16"), ("s8", "s8", "s32")], ids="-".join)
@pytest.mark.parametrize("m,k,n", [(9, 320, 100), (5, 256, 1100), (16, 333, 1040), (48, 448, 90), (64, 640, 1200)])
def test_few_rows(layout, types, m, k, n):
    shapes, attributes = LAYOUTS[layout]
    check(*shapes(m, k, n), (m, n), attributes, types)


def test_weights_that_lie_along_the_depth_are_read_in_place():
    rows = (
        "HloModule m\nENTRY e {{\n a = bf16[{rows},{k}] parameter(0)\n b = bf16[512,{k}] parameter(1)\n"
        " ROOT d = bf16[{rows},512] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}\n}}"
    )
    in_place, packed = (assembly(rows.format(rows=16, k=k), "x86-64-v4-amx").count("\ttileload") for k in (512, 500))
    assert in_place < packed


@has_tiles
def test_few_rows_of_several_dimensions():
    check((2, 5, 128), (3, 40, 128), (2, 5, 3, 40), "lhs_contracting_dims={2}, rhs_contracting_dims={2}", ("bf16",) * 3)
    check((4, 9, 96), (4, 200, 96), (4, 9, 200), BATCHED + "{2}", ("bf16", "bf16", "f32"))
    check((4, 9, 96), (4, 96, 200), (4, 9, 200), BATCHED + "{1}", ("bf16", "bf16", "f32"))


@has_tiles
@pytest.mark.parametrize(
    "types", [("s8", "u8", "s32"), ("u8", "s8", "s32"), ("u8", "u8", "s32"), ("s8", "s8", "s8")], ids="-".join
)
def test_signs(types):
    check((40, 100), (100, 50), (40, 50), ROWS_BY_COLUMNS, types)


@has_tiles
@pytest.mark.parametrize("out", ["bf16", "f32"])
def test_a_depth_in_parts(out):
    check((45, 1500), (1500, 70), (45, 70), ROWS_BY_COLUMNS, ("bf16", "bf16", out))
    check((600, 600), (600, 40), (600, 40), ROWS_BY_COLUMNS, ("bf16", "bf16", out))


@has_tiles
def test_batches():
    attributes = "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims="
    check((2, 3, 70, 33), (2, 3, 50, 33), (2, 3, 70, 50), attributes + "{3}", ("bf16",) * 3)
    check((2, 3, 70, 50), (2, 3, 50, 33), (2, 3, 70, 33), attributes + "{2}", ("bf16",) * 3)
    heads = "lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={3}"
    check((2, 70, 3, 64), (2, 50, 3, 64), (2, 3, 70, 50), heads, ("bf16",) * 3)


@has_tiles
def test_what_lies_behind_an_operand_is_not_multiplied():
    a, b = np.ones((17, 33), ml_dtypes.bfloat16), np.ones((33, 17), ml_dtypes.bfloat16)
    a[16] = np.nan
    b[:, 16] = np.inf
    got = np.asarray(run_kernel(product(("bf16", "bf16", "f32"), 17, 33, 17), a, b))
    want = np.full((17, 17), 33, np.float32)
    want[:, 16], want[16] = np.inf, np.nan
    np.testing.assert_array_equal(got, want)


@has_tiles
def test_the_least_of_them(monkeypatch):
    monkeypatch.setattr(amx_product, "LEAST_PRODUCTS", 1)
    check((16, 1), (1, 16), (16, 16), ROWS_BY_COLUMNS, ("bf16",) * 3)


IMAGE = """HloModule m
ENTRY e {{
  x = bf16[{n},{h},{w},{c}] parameter(0)
  k = bf16[{size},{size},{c},{o}] parameter(1)
  ROOT y = bf16[{n},{rows},{columns},{o}] convolution(x, k), dim_labels=b01f_01io->b01f,
    window={{size={size}x{size} pad={pad}_{pad}x{pad}_{pad} stride={stride}x{stride} rhs_dilate={spread}x{spread}}}
}}"""


@has_tiles
@pytest.mark.parametrize(
    "n,h,w,c,o,size,pad,stride,spread",
    [
        (1, 20, 17, 32, 32, 3, 1, 1, 1), (2, 9, 14, 64, 40, 3, 1, 1, 1), (1, 40, 40, 32, 33, 3, 1, 2, 1),
        (2, 20, 20, 64, 16, 1, 0, 1, 1), (1, 33, 33, 64, 16, 1, 0, 2, 1), (1, 24, 24, 32, 16, 3, 2, 1, 2),
        (2, 7, 7, 64, 64, 3, 1, 1, 1), (1, 16, 16, 48, 16, 2, 0, 1, 1), (1, 20, 20, 3, 16, 5, 2, 1, 1),
    ],
)  # fmt: skip
def test_images(n, h, w, c, o, size, pad, stride, spread):
    rows, columns = ((d + 2 * pad - spread * (size - 1) - 1) // stride + 1 for d in (h, w))
    text = IMAGE.format(**locals())
    rng = np.random.default_rng(0)
    x, k = (rng.standard_normal(d).astype(ml_dtypes.bfloat16) for d in ((n, h, w, c), (size, size, c, o)))
    got, want = np.asarray(run_kernel(text, x, k, split=3)), np.asarray(xl.evaluate(xl.parse(text), x, k))
    same(got, want, "bf16", size * np.sqrt(c))


@has_tiles
@pytest.mark.parametrize("out", ["bf16", "f32"])
def test_rows_that_are_packed_for_many_columns(out):
    check((530, 200), (200, 300), (530, 300), ROWS_BY_COLUMNS, ("bf16", "bf16", out))
    check((520, 2100), (2100, 256), (520, 256), ROWS_BY_COLUMNS, ("bf16", "bf16", out))


@has_tiles
@pytest.mark.parametrize("columns", [64, 70])
def test_sums_that_are_the_result_are_stored_in_it(columns):
    check((50, 600), (columns, 600), (50, columns), LAYOUTS["nt"][1], ("bf16", "bf16", "f32"))


@has_tiles
def test_the_end_of_a_depth_that_is_read_in_place():
    a, b = np.ones((40, 60), ml_dtypes.bfloat16), np.ones((60, 40), ml_dtypes.bfloat16)
    a[3, 59], a[4, 31], b[59, 5] = np.inf, np.nan, 2
    got = np.asarray(run_kernel(product(("bf16", "bf16", "bf16"), 40, 60, 40), a, b)).astype(np.float32)
    want = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(got, want.astype(ml_dtypes.bfloat16).astype(np.float32))
