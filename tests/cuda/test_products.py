"""Products on the emulated GPU."""

import numpy as np
import pytest

import xloom as xl
from tests.cuda.emulation import agrees, strategies
from tests.cuda.kernel_programs import TF32, convolution, product
from xloom.cuda.kernels import tensor_core_tiles
from xloom.cuda.lower import lowered
from xloom.llvm.target import target_named

ROWS_BY_COLUMNS = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def test_narrow_products_have_small_tiles():
    executable = agrees(
        f"ENTRY e {{ x = f32[70,40] parameter(0) y = f32[40,33] parameter(1) ROOT d = f32[70,33] dot(x, y), {ROWS_BY_COLUMNS} }}"
    )
    assert strategies(executable) == ["tiles of 32 x 32, 2 x 2 a thread, 8 deep"]


def test_few_rows_are_no_work_for_warpgroups():
    """Whose tiles have 128 rows, and which would be on a few multiprocessors: memory is what bounds them."""
    (first, _) = lowered(xl.parse(product("bf16", 16, 4096, 4096)), target_named("sm_90a")).launches
    assert "by tensor cores" in first.kernel.strategy
    assert first.blocks == 128


@pytest.mark.parametrize("dtype", ["f32", "s32", "c64", "u8"])
def test_tiles_of_threads(dtype):
    executable = agrees(
        f"ENTRY e {{ x = {dtype}[70,20] parameter(0) y = {dtype}[20,65] parameter(1) "
        f"ROOT d = {dtype}[70,65] dot(x, y), {ROWS_BY_COLUMNS} }}"
    )
    assert strategies(executable) == ["tiles of 64 x 64, 4 x 4 a thread, 8 deep"]


@pytest.mark.parametrize(("operands", "result"), [("bf16", "f32"), ("bf16", "bf16"), ("f16", "f32")])
def test_tensor_cores(operands, result):
    executable = agrees(
        f"ENTRY e {{ x = {operands}[2,70,40] parameter(0) y = {operands}[2,72,40] parameter(1) "
        f"ROOT d = {result}[2,70,72] dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={2} }"
    )
    assert "by tensor cores" in strategies(executable)[0]


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_slices_lie_in_shared_memory_as_in_memory(dtype, layout):
    """Some are copied asynchronously, 16 bytes at once, and others, of odd sizes, through registers."""
    generator = np.random.default_rng(0)
    for m, n, k in ((72, 80, 136), (72, 67, 40)):
        module = xl.parse(product(dtype, m, n, k, "f32", layout, TF32 if dtype == "f32" else ""))
        # eighths: no type rounds them
        values = [generator.integers(-20, 20, p.shape.dims) / 8 for p in module.entry.parameters]
        given = [v.astype(p.shape.dtype.numpy) for v, p in zip(values, module.entry.parameters, strict=True)]
        executable = agrees(module, *given)
        assert "by tensor cores" in strategies(executable)[0]
    (launch,) = executable.program.launches
    assert "llvm.nvvm.cp.async" in launch.kernel.text


@pytest.mark.parametrize(("said", "is_tf32"), [
    ("", False), ("operand_precision={highest,highest}", False), ("operand_precision={high,highest}", False),
    ("operand_precision={high,high}", True), ("operand_precision={high,high}, algorithm=dot_f32_f32_f32", False),
])  # fmt: skip
def test_f32_keeps_its_digits_unless_a_program_says_that_it_need_not(said, is_tf32):
    text = product("f32", 64, 64, 64).replace(" }", f", {said} }}" if said else " }")
    (launch,) = lowered(xl.parse(text), target_named("sm_80")).launches
    assert ("by tensor cores (tf32)" in launch.kernel.strategy) == is_tf32


def test_large_tiles_of_tensor_cores(monkeypatch):
    monkeypatch.setattr(tensor_core_tiles, "_MANY", 1)
    executable = agrees(
        f"ENTRY e {{ x = bf16[130,72] parameter(0) y = bf16[72,142] parameter(1) "
        f"ROOT d = bf16[130,142] dot(x, y), {ROWS_BY_COLUMNS} }}"
    )
    assert strategies(executable)[0].startswith("tiles of 128 x 128")


def test_what_is_copied_through_registers_has_small_tiles():
    """Of pictures whose channels lie apart, say: large tiles have no registers left for it, and ptxas would spill."""
    (launch,) = lowered(xl.parse(product("bf16", 2048, 2047, 512)), target_named("sm_80")).launches
    assert launch.kernel.strategy.startswith("tiles of 64 x 64")


@pytest.mark.parametrize(
    ("dtype", "m", "k", "result", "layout", "parts"),
    [
        ("bf16", 16, 5000, "bf16", "nn", 9),
        ("f16", 16, 2100, "f32", "nt", 4),
        ("f32", 17, 3000, "f32", "tn", 5),
        ("s32", 17, 3000, "s32", "nn", 5),
        ("c64", 17, 1100, "c64", "nn", 2),
    ],
)
def test_long_sums_of_few_tiles_are_split(dtype, m, k, result, layout, parts):
    executable = agrees(product(dtype, m, 24, k, result, layout))
    assert strategies(executable)[1:] == [f"puts {parts} parts of each of {24 * m} sums together"]


@pytest.mark.parametrize(("left", "right", "result"), [
    ("f8e4m3fn", "f8e4m3fn", "f32"), ("f8e4m3fn", "f8e5m2", "bf16"), ("f8e5m2fnuz", "f16", "f16"),
])  # fmt: skip
def test_floats_of_8_bits_are_multiplied_as_wider_ones(left, right, result):
    executable = agrees(
        f"ENTRY e {{ x = {left}[70,64] parameter(0) y = {right}[64,72] parameter(1) "
        f"ROOT d = {result}[70,72] dot(x, y), {ROWS_BY_COLUMNS} }}"
    )
    assert "by tensor cores" in strategies(executable)[-1]


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("converts", [False, True])
def test_tensor_cores_multiply_s8_with_sums_in_s32(layout, converts):
    """Elements along the sums lie together, or are moved so; 37 of them are no multiple of what is copied at once."""
    generator = np.random.default_rng(0)
    for m, n, k in ((72, 80, 136), (70, 67, 37)):
        text = product("s8", m, n, k, "s32", layout)
        if converts:
            text = text.replace("s8[", "s32[").replace("dot(p0, p1)", "dot(c0, c1)")
            for number in range(2):
                kind = f"p{number} = s32["
                dims = text.partition(kind)[2].partition("]")[0]
                wide = f"p{number} = s8[{dims}] parameter({number}) c{number} = s32[{dims}] convert(p{number})"
                text = text.replace(f"p{number} = s32[{dims}] parameter({number})", wide)
        module = xl.parse(text)
        given = [generator.integers(-128, 128, p.shape.dims).astype(np.int8) for p in module.entry.parameters]
        assert "by tensor cores (s8)" in strategies(agrees(module, *given))[-1]


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("dims", [(70, 72, 40), (33, 47, 21)])
def test_tensor_cores_multiply_f64(dims, layout):
    (strategy,) = strategies(agrees(product("f64", *dims, layout=layout)))
    assert "by tensor cores (f64)" in strategy


def test_f64_is_for_threads_where_tensor_cores_are_no_faster():
    (strategy,) = strategies(agrees(product("f64", 70, 72, 40), target="sm_120"))
    assert "a thread" in strategy


def test_convolutions_and_long_sums_of_f64():
    assert "(f64)" in strategies(agrees(convolution("f64", 9, 8, 16, stride=2)))[0]
    assert strategies(agrees(product("f64", 16, 24, 2100)))[1].startswith("puts 4 parts")


def test_tensor_cores_multiply_u8_with_sums_in_s32():
    """Those of both operands are, or neither."""
    generator = np.random.default_rng(0)
    for layout in ("nn", "nt"):
        module = xl.parse(product("u8", 72, 67, 136, "s32", layout))
        given = [generator.integers(0, 256, p.shape.dims).astype(np.uint8) for p in module.entry.parameters]
        assert "by tensor cores (u8)" in strategies(agrees(module, *given))[-1]
    mixed = product("u8", 72, 64, 64, "s32", "nt").replace("p1 = u8", "p1 = s8")
    assert "a thread" in strategies(agrees(mixed))[-1]


def test_tensor_cores_multiply_s8_of_convolutions():
    executable = agrees(
        "ENTRY e { x = s8[1,9,9,32] parameter(0) k = s8[24,3,3,32] parameter(1) ROOT c = s32[1,9,9,24] "
        "convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_o01i->b01f }"
    )
    assert "by tensor cores (s8)" in strategies(executable)[-1]


@pytest.mark.parametrize(("m", "n", "how"), [
    (40, 1, "32 lanes for each of 40 results"), (1, 40, "8 threads for each of 40 columns"),
])  # fmt: skip
def test_thin_products_of_narrow_floats_are_reductions_too(m, n, how):
    """What is rounded in the end is shared among threads as other sums are."""
    assert strategies(agrees(product("bf16", m, n, 300)))[0].startswith(how)


def test_operands_in_any_order():
    agrees(
        "ENTRY e { x = f32[11,3,40] parameter(0) y = f32[40,3,33] parameter(1) "
        "ROOT d = f32[3,11,33] dot(x, y), lhs_batch_dims={1}, rhs_batch_dims={1}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={0} }"
    )


def test_a_few_rows_are_reductions():
    executable = agrees(
        f"ENTRY e {{ x = f32[2,400] parameter(0) y = f32[400,90] parameter(1) "
        f"ROOT d = f32[2,90] dot(x, y), {ROWS_BY_COLUMNS} }}"
    )
    assert strategies(executable)[0].startswith("8 threads for each of 180 columns")


def test_convolution_and_windows():
    agrees(
        "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }\n"
        "ENTRY e { x = f32[2,9,9,4] parameter(0) k = f32[3,3,2,6] parameter(1) "
        "c = f32[2,5,9,6] convolution(x, k), window={size=3x3 stride=2x1 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, "
        "feature_group_count=2 zero = f32[] constant(0) "
        "ROOT w = f32[2,2,4,6] reduce-window(c, zero), window={size=1x2x3x1 stride=1x2x2x1}, to_apply=add }"
    )


@pytest.mark.parametrize("window", ["size=3 pad=1_1", "size=3 pad=1_1 lhs_dilate=2"])
@pytest.mark.parametrize("features", [2, 8])  # reductions, tiles
def test_zeros_around_the_input_meet_what_is_not_finite(window, features):
    outputs = 9 if "dilate" in window else 5
    x, k = np.ones((1, 5, features), np.float32), np.ones((3, features, 8), np.float32)
    k[0, 0, 3], k[2, 1, 5] = np.nan, np.inf
    agrees(
        f"ENTRY e {{ x = f32[1,5,{features}] parameter(0) k = f32[3,{features},8] parameter(1) "
        f"ROOT c = f32[1,{outputs},8] convolution(x, k), window={{{window}}}, dim_labels=b0f_0io->b0f }}",
        x,
        k,
    )


CONVOLUTIONS = {
    "padded": ("2,9,10,16", "3,3,16,24", "2,9,10,24", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", 1),
    "strided": (
        "1,17,13,8",
        "5,3,8,40",
        "1,4,3,40",
        "size=5x3 stride=4x3 pad=0_0x0_0 rhs_dilate=1x2",
        "b01f_01io->b01f",
        1,
    ),
    "channels first": ("2,12,9,8", "20,12,3,1", "2,20,7,8", "size=3x1", "bf01_oi01->bf01", 1),
    "groups": ("2,8,8,16", "3,3,8,32", "2,8,8,32", "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", 2),
    "groups of the batch, as gradients of those have": (
        "4,8,8,16",
        "8,7,16,24",
        "2,3,3,24",
        "size=8x7 pad=1_1x0_1",
        "b01f_01io->b01f",
        1,
        2,
    ),
    "turned, as gradients are": (
        "2,9,7,16",
        "3,2,24,16",
        "2,9,6,24",
        "size=3x2 pad=1_1x0_0 rhs_reversal=1x1",
        "b01f_01oi->b01f",
        1,
    ),
    "spread, as gradients of strided ones are": (
        "2,5,5,16",
        "3,3,24,16",
        "2,11,10,24",
        "size=3x3 pad=2_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1",
        "b01f_01oi->b01f",
        1,
    ),
    "spread, and windows too": (
        "1,4,5,8",
        "3,3,16,8",
        "1,10,11,16",
        "size=3x3 pad=2_2x1_1 lhs_dilate=3x3 rhs_dilate=2x2",
        "b01f_01oi->b01f",
        1,
    ),
    "spread, channels first": (
        "2,16,5,5",
        "16,16,3,3",
        "2,16,10,10",
        "size=3x3 pad=1_2x1_2 lhs_dilate=2x2",
        "bf01_oi01->bf01",
        1,
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_convolutions_are_products(name, dtype):
    x, k, y, window, labels, groups, *of_batches = CONVOLUTIONS[name]
    executable = agrees(
        f"ENTRY e {{ x = {dtype}[{x}] parameter(0) k = {dtype}[{k}] parameter(1) ROOT c = {dtype}[{y}] convolution(x, k), "
        f"window={{{window}}}, dim_labels={labels}, feature_group_count={groups}{', batch_group_count=2' * bool(of_batches)} }}"
    )
    assert any(strategy.startswith("tiles of ") for strategy in strategies(executable))
    assert ("tensor cores" in " ".join(strategies(executable))) == (dtype == "bf16")
