"""Sorts, scatters, and what the processor's kernels do, on the emulated GPU."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from tests.cuda.emulation import agrees, strategies
from tests.cuda.kernel_programs import cumulative
from xloom.cuda.emulator.executable import emulated
from xloom.cuda.kernels import cumulative as cumulative_kernel
from xloom.cuda.kernels import radix_sort

LESS = (
    "less { a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3) "
    "ROOT l = pred[] compare(a, b), direction=LT, type=TOTALORDER }\n"
)


@pytest.mark.parametrize(("dims", "dimension"), [((1000,), 0), ((3, 300), 1), ((300, 3), 0), ((5, 7), 1)])
def test_sorts_are_stable(dims, dimension):
    size = ",".join(map(str, dims))
    values = np.random.default_rng(0).integers(0, 9, dims).astype(np.float32)
    values.reshape(-1)[::11] = np.nan
    executable = agrees(
        f"{LESS}ENTRY e {{ x = f32[{size}] parameter(0) n = s32[{size}] parameter(1) "
        f"ROOT s = (f32[{size}], s32[{size}]) sort(x, n), dimensions={{{dimension}}}, is_stable=true, to_apply=less }}",
        values,
        np.arange(values.size, dtype=np.int32).reshape(dims),
    )
    assert strategies(executable)[0].startswith("tiles of ")


@pytest.mark.parametrize(
    ("dtype", "direction", "kind", "dims"),
    [("f32", "LT", "TOTALORDER", (2, 2100)), ("bf16", "GT", "FLOAT", (2500,)), ("u8", "GT", "UNSIGNED", (3, 70))],
)
def test_long_rows_are_sorted_by_keys(monkeypatch, dtype, direction, kind, dims):
    monkeypatch.setattr(radix_sort, "FROM", 64)
    size, axis = ",".join(map(str, dims)), len(dims) - 1
    values = np.random.default_rng(0).integers(0, 99, dims)
    keys = values.astype({"f32": np.float32, "bf16": ml_dtypes.bfloat16, "u8": np.uint8}[dtype])
    if dtype == "f32":
        keys -= 50
        keys[:, ::11] = np.nan
        keys[:, ::13] = -0.0
    executable = agrees(
        f"less {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3) "
        f"ROOT l = pred[] compare(a, b), direction={direction}, type={kind} }}\n"
        f"ENTRY e {{ x = {dtype}[{size}] parameter(0) n = s32[{size}] parameter(1) "
        f"ROOT s = ({dtype}[{size}], s32[{size}]) sort(x, n), dimensions={{{axis}}}, is_stable=true, to_apply=less }}",
        keys,
        np.arange(values.size, dtype=np.int32).reshape(dims),
    )
    assert any("moves elements by bits 0 to 3" in strategy for strategy in strategies(executable))


def test_a_sort_that_numbers_its_elements_itself():
    agrees(
        f"{LESS}ENTRY e {{ x = f32[4,90] parameter(0) n = s32[4,90] iota(), iota_dimension=1 "
        "ROOT s = (f32[4,90], s32[4,90]) sort(x, n), dimensions={1}, is_stable=true, to_apply=less }"
    )


@pytest.mark.parametrize(
    ("dtype", "operator", "strategy"),
    [
        ("f32", "add", "by atomic fadd"),
        ("s32", "maximum", "by atomic max"),
        ("u64", "xor", "by atomic xor"),
        ("bf16", "add", "by atomic exchange"),
        ("f16", "maximum", "by atomic exchange"),
        ("s16", "add", "by atomic exchange"),
        ("f32", "multiply", "by atomic exchange"),
        ("f64", "minimum", "by atomic exchange"),
        ("f32", "subtract", "items of the processor's kernel"),
    ],
)
def test_scatters(dtype, operator, strategy):
    executable = agrees(
        f"f {{ x = {dtype}[] parameter(0) y = {dtype}[] parameter(1) ROOT z = {dtype}[] {operator}(x, y) }}\n"
        f"ENTRY e {{ x = {dtype}[9,5] parameter(0) i = s32[20,1] parameter(1) u = {dtype}[20,5] parameter(2) "
        f"ROOT s = {dtype}[9,5] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f }"
    )
    assert strategy in strategies(executable)[-1]


LOG_ADD = (
    "sums { a = f32[] parameter(0) b = f32[] parameter(1) m = f32[] maximum(a, b) d = f32[] subtract(a, b) "
    "e = f32[] abs(d) n = f32[] negate(e) x = f32[] exponential(n) l = f32[] log-plus-one(x) ROOT r = f32[] add(m, l) }"
)


@pytest.mark.parametrize(
    ("dims", "window"), [("40,30", "size=40x1 pad=39_0x0_0"), ("4,300", "size=1x300 pad=0_0x299_0")]
)
def test_cumulative_windows_of_any_computation_take_linear_time(dims, window):
    executable = agrees(
        f"{LOG_ADD}\nENTRY e {{ x = f32[{dims}] parameter(0) i = f32[] constant(-100) "
        f"ROOT r = f32[{dims}] reduce-window(x, i), window={{{window}}}, to_apply=sums }}"
    )
    assert strategies(executable)[0].startswith("a thread along each of ")


@pytest.mark.parametrize(("dtype", "rows", "name", "start"), [
    ("f32", 300, "add", "0"), ("s32", 300, "add", "7"), ("f32", 3000, "maximum", "-inf"),
])  # fmt: skip
def test_few_cumulative_columns_are_scanned_in_parts(dtype, rows, name, start):
    executable = agrees(cumulative(dtype, rows, 3, 0, name, start))
    assert strategies(executable)[0] == f"sums each of {rows // 64} parts of 3 rows of {rows}, by threads"


def test_indices_outside_and_unique_ones():
    executable = agrees(
        "f { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] subtract(y, x) }\n"
        "ENTRY e { x = f32[9] parameter(0) i = s32[4,1] parameter(1) u = f32[4] parameter(2) "
        "ROOT s = f32[9] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=f }",
        np.arange(9, dtype=np.float32),
        np.array([[3], [-1], [8], [9]], np.int32),
        np.ones(4, np.float32),
    )
    assert "of unique indices" in strategies(executable)[0]


@pytest.mark.parametrize(
    "line",
    [
        "(u64[2], u32[30]) rng-bit-generator(k), algorithm=rng_three_fry",
        "(u64[2], u32[9]) rng-bit-generator(k), algorithm=rng_philox",
    ],
)
def test_what_the_processor_s_kernels_do(line):
    executable = agrees(f"ENTRY e {{ t = f32[3,9] parameter(0) k = u64[2] parameter(1) ROOT r = {line} }}")
    assert "of the processor's kernel" in strategies(executable)[-1]


@pytest.mark.parametrize(
    ("dims", "axis", "padding", "strategy"),
    [
        ((3, 700), 1, "699_0", "a block along each of 3 rows of 700, 256 elements"),
        ((5, 40), 1, "0_39", "a block along each of 5 rows of 40, 64 elements"),
        ((70, 9), 0, "69_0", "a thread along each of 9 rows of 70"),
    ],
)
@pytest.mark.parametrize(("dtype", "operator"), [("f32", "add"), ("bf16", "maximum"), ("s32", "maximum")])
def test_cumulative_windows(dims, axis, padding, strategy, dtype, operator):
    shape = f"{dtype}[{dims[0]},{dims[1]}]"
    size = "x".join(str(d if k == axis else 1) for k, d in enumerate(dims))
    pad = "x".join(padding if k == axis else "0_0" for k in range(2))
    executable = agrees(
        f"f {{ x = {dtype}[] parameter(0) y = {dtype}[] parameter(1) ROOT z = {dtype}[] {operator}(x, y) }}\n"
        f"ENTRY e {{ x = {shape} parameter(0) i = {dtype}[] constant({0 if operator == 'add' else -9}) "
        f"ROOT w = {shape} reduce-window(x, i), window={{size={size} pad={pad}}}, to_apply=f }}"
    )
    assert strategies(executable)[0].startswith(strategy)


@pytest.mark.parametrize(
    ("dtype", "name", "start", "rows"),
    [("f32", "add", "2", 1), ("bf16", "maximum", "-inf", 3), ("s64", "multiply", "1", 2)],
)
def test_few_long_rows_are_scanned_in_parts(monkeypatch, dtype, name, start, rows):
    monkeypatch.setattr(cumulative_kernel, "_PART", 256)
    executable = agrees(cumulative(dtype, rows, 1100, 1, name, start))
    assert [s.partition(" ")[0] for s in strategies(executable)] == ["sums", "scans"]


def test_random_numbers_of_a_state_that_programs_share():
    distributions = ("uniform", "normal")
    a, b = (
        emulated(
            xl.parse(
                "ENTRY e { a = f32[] parameter(0) z = f32[] parameter(1) "
                f"ROOT r = f32[2000] rng(a, z), distribution=rng_{distribution} }}"
            )
        )
        for distribution in distributions
    )
    low, high = np.float32(2), np.float32(3)
    first, second = a(low, high), a(low, high)
    assert ((first >= 2) & (first < 3)).all()
    assert abs(first.mean() - 2.5) < 0.05
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.1
    normal = b(low, high)
    assert abs(normal.mean() - 2) < 0.3
    assert abs(normal.std() - 3) < 0.3
    state = emulated(xl.parse("ENTRY e { ROOT s = u64[2] rng-get-and-update-state(), delta=3 }"))
    before, after = state(), state()
    assert after[1] - before[1] == 3
    a(low, high)
    assert state()[1] - after[1] == 3 + 500  # a counter makes four numbers
