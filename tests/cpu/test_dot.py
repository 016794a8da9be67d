"""Kernels of dot against the interpreter."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from tests.cpu.kernels import run_kernel
from xloom.cpu.kernels.matmul import strips
from xloom.hlo.dtype import DTYPES


def values(rng, dims, dtype):
    kind = DTYPES[dtype]
    if kind.is_complex:
        return (rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(kind.numpy)
    if kind.is_integer or dtype == "pred":
        low, high = (0, 2) if dtype == "pred" else (-100, 100)
        if kind.bits < 8:
            low, high = (-(1 << kind.bits - 1), 1 << kind.bits - 1) if dtype[0] == "s" else (0, 1 << kind.bits)
        if dtype[0] == "u":
            low = 0
        wide = rng.integers(low, high, dims).astype(np.int8 if kind.bits < 8 else kind.numpy)
        return wide.view(kind.numpy) if kind.bits < 8 else wide  # in memory, less than a byte is extended to one
    return rng.standard_normal(dims).astype(kind.numpy)


def check(lhs, rhs, out, attributes, types=("f32", "f32", "f32"), split=3, seed=0):
    rng = np.random.default_rng(seed)
    a, b = values(rng, lhs, types[0]), values(rng, rhs, types[1])
    shapes = [f"{t}[{','.join(map(str, d))}]" for t, d in zip(types, (lhs, rhs, out), strict=True)]
    text = f"""HloModule m
ENTRY e {{
  a = {shapes[0]} parameter(0)
  b = {shapes[1]} parameter(1)
  ROOT d = {shapes[2]} dot(a, b), {attributes}
}}"""
    got = np.asarray(run_kernel(text, a, b, split=split))
    want = np.asarray(xl.evaluate(xl.parse(text), a, b))
    depth = max(1.0, np.sqrt(a.size * b.size / max(1, got.size)))
    same(got, want, types[2], depth)


def same(got, want, dtype, depth):
    assert got.shape == want.shape and got.dtype == want.dtype
    kind = DTYPES[dtype]
    if kind.is_integer or dtype == "pred":
        np.testing.assert_array_equal(got.astype(np.int64), want.astype(np.int64))
        return
    epsilon = float(ml_dtypes.finfo(kind.real.numpy).eps) + (1e-15 if kind.real.bits == 64 else 1e-7) * depth
    wide = np.complex128 if kind.is_complex else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=epsilon, atol=epsilon * np.sqrt(depth))


def matrices(m, k, n, *types, **options):
    types = types or ("f32", "f32", "f32")
    check((m, k), (k, n), (m, n), "lhs_contracting_dims={1}, rhs_contracting_dims={0}", types, **options)


@pytest.mark.parametrize("m,k,n,dtype", [(43, 1024, 300, "f32"), (130, 2048, 150, "f32"), (129, 512, 200, "f64")])
def test_rows_pages_apart(m, k, n, dtype):
    """They are copied, a part of the depth at a time; the last tile begins before the one before it ends."""
    matrices(m, k, n, dtype, dtype, dtype)


@pytest.mark.parametrize(
    "m,k,n",
    [
        (1, 1, 1), (2, 3, 4), (8, 8, 8), (9, 5, 17), (5, 1, 7), (16, 16, 16), (31, 33, 47), (7, 300, 20), (64, 64, 64),
        (100, 90, 130), (129, 257, 33), (33, 513, 129), (3, 1000, 70), (200, 600, 10), (70, 64, 700), (300, 40, 300),
    ],
)  # fmt: skip
def test_sizes(m, k, n):
    matrices(m, k, n)


@pytest.mark.parametrize("m,k,n", [(1, 300, 200), (200, 300, 1), (1, 1000, 1), (1, 4, 3000), (3000, 4, 1), (1, 37, 19)])
def test_vectors(m, k, n):
    matrices(m, k, n)
    matrices(m, k, n, "bf16", "bf16", "bf16")
    matrices(m, k, n, "s8", "s8", "s32")
    matrices(m, k, n, "c64", "c64", "c64")


@pytest.mark.parametrize("types", [("f32", "f32", "f32"), ("bf16", "bf16", "bf16"), ("c64", "c64", "c64")], ids="-".join)  # fmt: skip
@pytest.mark.parametrize(
    "m,k,n", [(2, 260, 1030), (4, 515, 1100), (5, 262, 1111), (8, 301, 1792), (11, 260, 1050), (16, 259, 1100)]
)
def test_few_vectors(m, k, n, types):
    k *= {"c64": 1, "f32": 2, "bf16": 4}[types[0]]  # a matrix of more than a megabyte
    check((m, k), (k, n), (m, n), "lhs_contracting_dims={1}, rhs_contracting_dims={0}", types)
    check((m, k), (n, k), (m, n), "lhs_contracting_dims={1}, rhs_contracting_dims={1}", types)
    check((n, k), (m, k), (n, m), "lhs_contracting_dims={1}, rhs_contracting_dims={1}", types)


@pytest.mark.parametrize(
    "types", [("f32", "f32", "f32"), ("f64", "f64", "f64"), ("f16", "f16", "f32"), ("s32", "s32", "s32")], ids="-".join
)
@pytest.mark.parametrize("m,k,n", [(5, 530, 1024), (6, 517, 2050), (24, 523, 1031), (48, 512, 4608)])
def test_updates_of_several_results(m, k, n, types):
    check((m, k), (k, n), (m, n), "lhs_contracting_dims={1}, rhs_contracting_dims={0}", types)
    check((k, m), (k, n), (m, n), "lhs_contracting_dims={0}, rhs_contracting_dims={0}", types)
    check((k, n), (m, k), (n, m), "lhs_contracting_dims={0}, rhs_contracting_dims={1}", types)


@pytest.mark.parametrize("types", [("f32", "f32", "f32"), ("f16", "f16", "f16")], ids="-".join)
def test_updates_of_several_results_in_batches(types):
    dimensions = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
    check((3, 7, 530), (3, 530, 1030), (3, 7, 1030), dimensions, types)


@pytest.mark.parametrize("types", [("f32", "f32", "f32"), ("f16", "f16", "f32"), ("c64", "c64", "c64")], ids="-".join)
@pytest.mark.parametrize("m,k,n", [(9, 1024, 521), (13, 1003, 523), (29, 514, 1031), (32, 530, 1030)])
def test_groups_of_vectors(m, k, n, types):
    check((m, k), (n, k), (m, n), "lhs_contracting_dims={1}, rhs_contracting_dims={1}", types)
    check((n, k), (m, k), (n, m), "lhs_contracting_dims={1}, rhs_contracting_dims={1}", types)


@pytest.mark.parametrize("weights", ["f8e5m2", "f8e4m3fn", "f8e4m3fnuz", "f4e2m1fn", "s8", "u8", "s4", "u4"])
@pytest.mark.parametrize("rows,depth,columns", [(1, 700, 1650), (4, 1027, 1101), (9, 1040, 1056)])
def test_few_rows_with_narrow_weights(weights, rows, depth, columns):
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, (rows, depth)).astype(np.float32)
    raw = random.integers(0, 256, (depth, columns), np.uint8)  # of 4 bits, the others may be any
    kind = DTYPES[weights]
    known = (raw & ((1 << kind.bits) - 1)).view(kind.numpy).astype(np.float64)
    if kind.is_float:  # sums of these are exact
        is_far = ~((np.abs(known) <= 64) & (np.abs(known) >= 1 / 64))
        raw[is_far], known[is_far] = 0, 0
    w = raw.view(kind.numpy)
    for own in (1, 0):  # the dimension of the weights that is adjacent
        module = xl.parse(f"""HloModule m
ENTRY e {{ x = f32[{rows},{depth}] parameter(0)
  w = {weights}[{depth},{columns}]{{{own},{1 - own}}} parameter(1)
  y = f32[{depth},{columns}] convert(w)
  ROOT d = f32[{rows},{columns}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}""")
        exact = x.astype(np.float64) @ known
        np.testing.assert_array_equal(np.asarray(xl.compile(module)(x, w)), exact.astype(np.float32))


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("columns", [1025, 9000, 40001])
@pytest.mark.parametrize("types", [("f32", "f32", "f32"), ("f64", "f64", "f64"), ("bf16", "bf16", "f32")])
def test_long_strips_of_a_matrix_that_no_cache_holds(monkeypatch, rows, columns, types):
    monkeypatch.setattr(strips, "CACHED", 0)
    check((rows, 19), (19, columns), (rows, columns), "lhs_contracting_dims={1}, rhs_contracting_dims={0}", types)


@pytest.mark.parametrize("weights", ["s4", "u4"])
def test_numbers_of_four_bits_need_not_be_extended(weights):
    x = np.random.default_rng(0).integers(0, 256, (40, 40), np.uint8).view(DTYPES[weights].numpy)
    module = xl.parse(f"""HloModule m
ENTRY e {{ x = {weights}[40,40] parameter(0)
  ROOT d = s32[40,40] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}""")
    wide = x.astype(np.int32)
    np.testing.assert_array_equal(np.asarray(xl.compile(module)(x)), wide @ wide)


@pytest.mark.parametrize("types", [("f32", "f32", "f32"), ("s8", "s8", "s32")], ids="-".join)
@pytest.mark.parametrize("m,k,n", [(2, 17, 17_000), (3, 41, 7000), (6, 150, 2000), (6, 140, 2100)])
def test_few_vectors_of_short_sums(m, k, n, types):
    n *= 4 if types[0] == "s8" else 1
    check((m, k), (n, k), (m, n), "lhs_contracting_dims={1}, rhs_contracting_dims={1}", types)


@pytest.mark.parametrize("m,k,n", [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_empty(m, k, n):
    matrices(m, k, n)


TYPES = [
    ("f64", "f64", "f64"), ("f16", "f16", "f16"), ("bf16", "bf16", "bf16"), ("bf16", "bf16", "f32"),
    ("f32", "f32", "f64"), ("f32", "bf16", "f32"), ("f8e4m3fn", "f8e5m2", "f32"), ("f8e4m3fn", "f8e4m3fn", "f8e4m3fn"),
    ("s8", "s8", "s32"), ("s8", "s8", "s8"), ("u8", "s8", "s32"), ("u8", "u8", "u8"), ("s16", "s16", "s16"),
    ("u16", "u16", "u32"), ("s32", "s32", "s32"), ("u32", "u32", "u32"), ("s64", "s64", "s64"), ("s4", "s4", "s4"),
    ("s4", "s8", "s32"), ("s8", "s8", "f32"), ("pred", "pred", "pred"), ("c64", "c64", "c64"), ("c128", "c128", "c128"),
    ("f32", "c64", "c64"),
]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize("m,k,n", [(5, 7, 9), (33, 70, 65), (130, 515, 70)])
def test_types(m, k, n, types):
    matrices(m, k, n, *types)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "lhs,rhs,out,attributes",
    [
        # transposes
        ((70, 50), (70, 90), (50, 90), "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
        ((50, 70), (90, 70), (50, 90), "lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
        ((70, 50), (90, 70), (50, 90), "lhs_contracting_dims={0}, rhs_contracting_dims={1}"),
        ((300, 130), (300, 140), (130, 140), "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
        ((130, 300), (140, 300), (130, 140), "lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
        # batches
        ((6, 8, 8), (6, 8, 8), (6, 8, 8), "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}"),
        ((3, 70, 60), (3, 60, 170), (3, 70, 170), "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}"),
        ((70, 3, 60), (60, 170, 3), (3, 70, 170), "lhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_batch_dims={2}, rhs_contracting_dims={0}"),
        ((2, 3, 5, 7), (3, 2, 7, 6), (2, 3, 5, 6), "lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={1,0}, rhs_contracting_dims={2}"),
        # several contracting and free dimensions, in any order
        ((4, 5, 6, 7), (7, 9, 5), (4, 6, 9), "lhs_contracting_dims={1,3}, rhs_contracting_dims={2,0}"),
        ((12, 9, 8, 20), (20, 9, 11, 13), (12, 8, 11, 13), "lhs_contracting_dims={3,1}, rhs_contracting_dims={0,1}"),
        ((40, 9, 8, 20), (11, 20, 13, 9), (40, 8, 11, 13), "lhs_contracting_dims={3,1}, rhs_contracting_dims={1,3}"),
        ((33, 3, 24, 16), (40, 24, 16, 3), (33, 40), "lhs_contracting_dims={1,2,3}, rhs_contracting_dims={3,1,2}"),
        ((16, 3, 32), (24, 32, 4, 3), (16, 24, 4), "lhs_contracting_dims={1,2}, rhs_contracting_dims={3,1}"),
        # scalars and outer products
        ((), (), (), "lhs_contracting_dims={}, rhs_contracting_dims={}"),
        ((), (3, 4), (3, 4), "lhs_contracting_dims={}, rhs_contracting_dims={}"),
        ((300,), (70,), (300, 70), "lhs_contracting_dims={}, rhs_contracting_dims={}"),
        ((70,), (70,), (), "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
        ((5, 70), (5, 70), (5,), "lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}"),
        ((5, 70), (5, 70), (70, 5, 5), "lhs_batch_dims={1}, lhs_contracting_dims={}, rhs_batch_dims={1}, rhs_contracting_dims={}"),
        ((40, 6, 3), (6, 50, 3), (6, 3, 40, 50), "lhs_batch_dims={1,2}, lhs_contracting_dims={}, rhs_batch_dims={0,2}, rhs_contracting_dims={}"),
        # sums down columns
        ((70, 5, 3), (70, 5, 3), (5, 3), "lhs_batch_dims={1,2}, lhs_contracting_dims={0}, rhs_batch_dims={1,2}, rhs_contracting_dims={0}"),
        ((5, 1, 3), (1, 7), (5, 3, 7), "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        ((30, 50, 8), (8, 50), (50, 30), "lhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_batch_dims={1}, rhs_contracting_dims={0}"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("types", [("f32", "f32", "f32"), ("bf16", "bf16", "f32"), ("s8", "s8", "s32"), ("c64", "c64", "c64")], ids="-".join)  # fmt: skip
def test_dimension_numbers(lhs, rhs, out, attributes, types):
    check(lhs, rhs, out, attributes, types)


def test_algorithm_rounds_the_operands():
    attributes = "lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_bf16_bf16_f32"
    check((9, 20), (20, 11), (9, 11), attributes)


def test_nan_stays_in_its_row():
    a, b = np.ones((9, 300), np.float32), np.ones((300, 40), np.float32)
    a[8, 5] = np.nan
    b[7, 39] = np.inf
    text = """HloModule m
ENTRY e {
  a = f32[9,300] parameter(0)
  b = f32[300,40] parameter(1)
  ROOT d = f32[9,40] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    np.testing.assert_array_equal(run_kernel(text, a, b), a @ b)


@pytest.mark.parametrize("types", [("f8e4m3fn", "f8e8m0fnu"), ("f4e2m1fn", "f8e4m3fn"), ("bf16", "bf16")], ids="-".join)
@pytest.mark.parametrize("scales", [((2, 9, 4), (2, 4, 1)), ((1, 9, 1), (2, 64, 5)), ((), ())])
def test_scaled(scales, types):
    rng = np.random.default_rng(0)
    element, scale = types
    dims = ((2, 9, 64), (2, 64, 5), *scales)
    kinds = (element, element, scale, scale)
    arrays = [
        values(rng, d, t) if k < 2 else np.exp2(rng.integers(-2, 3, d)).astype(DTYPES[t].numpy)
        for k, (d, t) in enumerate(zip(dims, kinds, strict=True))
    ]
    parameters = "".join(
        f"  p{k} = {t}[{','.join(map(str, d))}] parameter({k})\n"
        for k, (d, t) in enumerate(zip(dims, kinds, strict=True))
    )
    numbers = "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}"
    text = f"HloModule m\nENTRY e {{\n{parameters}  ROOT d = f32[2,9,5] scaled-dot(p0, p1, p2, p3), {numbers}\n}}"
    want = xl.evaluate(xl.parse(text), *arrays)
    np.testing.assert_allclose(run_kernel(text, *arrays, split=3), np.asarray(want), rtol=1e-5, atol=1e-4)


RAGGED = {
    "rows": ((11, 5), (3, 5, 40), (3,), (11, 40), "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"),
    "rows of batches": ((2, 11, 5), (3, 2, 5, 7), (3,), (2, 11, 7), "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}"),
    "rows, sizes a batch": ((2, 11, 5), (3, 2, 5, 7), (2, 3), (2, 11, 7), "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}"),
    "transposed": ((5, 11), (40, 3, 5), (3,), (11, 40), "lhs_contracting_dims={0}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={1}"),
    "depth": ((9, 11), (11, 40), (3,), (3, 9, 40), "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}, rhs_group_dims={}"),
    "depth of batches": ((2, 9, 11), (2, 11, 4), (2, 3), (3, 2, 9, 4), "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={2}, rhs_group_dims={}"),
    "batches": ((11, 3, 4), (11, 4, 5), (3,), (11, 3, 5), "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={}"),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("types", [("f32", "s32"), ("bf16", "s64"), ("s8", "s32"), ("f8e4m3fn", "u32")], ids="-".join)
@pytest.mark.parametrize("sizes", [(4, 0, 7), (3, 2, 1), (9, 9, 9)])
@pytest.mark.parametrize("name", RAGGED)
def test_ragged(name, sizes, types):
    lhs, rhs, counts, out, attributes = RAGGED[name]
    rng = np.random.default_rng(0)
    element, index = types
    a, b = values(rng, lhs, element), values(rng, rhs, element)
    n = np.broadcast_to(np.asarray(sizes, DTYPES[index].numpy), counts)
    if len(counts) > 1:
        n = np.stack([row[::s] for row, s in zip(n, (1, -1), strict=True)])

    def shape(t, dims):
        return f"{t}[{','.join(map(str, dims))}]"

    text = f"""HloModule m
ENTRY e {{
  a = {shape(element, lhs)} parameter(0)
  b = {shape(element, rhs)} parameter(1)
  n = {shape(index, counts)} parameter(2)
  ROOT d = {shape(element, out)} ragged-dot(a, b, n), {attributes}
}}"""
    got = np.asarray(run_kernel(text, a, b, n, split=3)).astype(np.float64)
    want = np.asarray(xl.evaluate(xl.parse(text), a, b, n)).astype(np.float64)
    exact = element == "s8"
    epsilon = 0 if exact else float(ml_dtypes.finfo(DTYPES[element].numpy).eps)
    np.testing.assert_allclose(got, want, rtol=2 * epsilon, atol=4 * epsilon)


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("types", [("u8", "u8", "u8"), ("s8", "s8", "s32")], ids="-".join)
def test_few_columns_of_narrow_integers(types, columns):
    attributes = "lhs_contracting_dims={2,1}, rhs_contracting_dims={2,0}"
    check((2, 6, 5), (6, columns, 5), (2, columns), attributes, types)
    matrices(3, 7, columns, *types)


@pytest.mark.parametrize("rows, depth, columns", [(100, 301, 77), (64, 512, 130), (37, 1000, 129), (300, 70, 9)])
@pytest.mark.parametrize("result", ["f32", "bf16"])
@pytest.mark.parametrize("left, right", [(1, 0), (0, 1), (1, 1)])
def test_pairs_of_bf16(rows, depth, columns, result, left, right):
    a = (rows, depth) if left else (depth, rows)
    b = (columns, depth) if right else (depth, columns)
    module = xl.parse(
        f"ENTRY e {{ a = bf16[{a[0]},{a[1]}] parameter(0) b = bf16[{b[0]},{b[1]}] parameter(1) "
        f"ROOT c = {result}[{rows},{columns}] dot(a, b), lhs_contracting_dims={{{left}}}, "
        f"rhs_contracting_dims={{{right}}} }}"
    )
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(dims).astype(ml_dtypes.bfloat16) for dims in (a, b))
    x[3, 5], x[7, 8] = np.nan, np.inf
    got = np.asarray(xl.compile(module)(x, y)).astype(np.float64)
    exact = (x.T if left == 0 else x).astype(np.float64) @ (y.T if right else y).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    np.testing.assert_allclose(got, exact, rtol=2e-5 if result == "f32" else 5e-3, atol=1e-4)


@pytest.mark.sampled
@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize("lhs,summed", [((1500, 3), 1), ((3, 1500), 0), ((30, 3, 50), 1)])
def test_few_columns(lhs, summed, types):
    rng = np.random.default_rng(0)
    rows = ",".join(str(n) for k, n in enumerate(lhs) if k != summed)
    a, b, c = (f"{t}[{d}]" for t, d in zip(types, (",".join(map(str, lhs)), "4,3", f"{rows},4"), strict=True))
    module = xl.parse(f"""HloModule m
ENTRY e {{ x = {a} parameter(0) y = {b} parameter(1)
  ROOT d = {c} dot(x, y), lhs_contracting_dims={{{summed}}}, rhs_contracting_dims={{1}} }}""")
    arguments = values(rng, lhs, types[0]), values(rng, (4, 3), types[1])
    same(np.asarray(xl.compile(module)(*arguments)), np.asarray(xl.evaluate(module, *arguments)), types[2], 3)


def test_narrow_products_of_one_column() -> None:
    """The depth's dimensions come in another order in each operand, and there is nothing to make a vector of."""
    text = """HloModule m
ENTRY e { x = s8[7,64,7,5] parameter(0) y = s8[5,7,7] parameter(1)
  ROOT d = s32[7,64] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2,3}, rhs_contracting_dims={2,0} }"""
    random = np.random.default_rng(1)
    x, y = (random.integers(-128, 128, dims).astype(np.int8) for dims in ((7, 64, 7, 5), (5, 7, 7)))
    wanted = np.einsum("bmcd,dbc->bm", x.astype(np.int32), y.astype(np.int32))
    np.testing.assert_array_equal(xl.compile(xl.parse(text))(x, y), wanted)


@pytest.mark.parametrize("m,k,panels", [(33, 300, 3), (130, 700, 9), (65, 1024, 5), (300, 2048, 4), (600, 129, 2)])
@pytest.mark.parametrize("width", [16, 24, 32])
def test_a_matrix_in_panels(m, k, panels, width):
    """Panels as wide as tiles are not packed again; others are, whatever they are."""
    attributes = "lhs_contracting_dims={1}, rhs_contracting_dims={1}"
    check((m, k), (panels, k, width), (m, panels, width), attributes)


@pytest.mark.parametrize("dtype", ["f32", "f64", "s32"])
def test_matrices_in_panels(dtype):
    attributes = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}"
    width = 32 if dtype == "f32" else 16
    check((2, 70, 130), (2, 3, 130, width), (2, 70, 3, width), attributes, (dtype, dtype, dtype))
