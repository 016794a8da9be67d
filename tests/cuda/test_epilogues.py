"""What is done to each sum of a product, on the emulated GPU: in the product's kernel, if nothing else reads the sums."""

import pytest

import xloom as xl
from tests.cuda.emulation import agrees, strategies
from tests.cuda.kernel_programs import entry, product, with_epilogue
from tests.cuda.test_warpgroups import eighths
from xloom.cuda.kernels import tensor_core_tiles, warpgroup_tiles
from xloom.cuda.kernels.warpgroup_tiles import Cut

DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
FUSED = "and what is done to each sum"


@pytest.mark.parametrize(
    ("dtype", "m", "n", "k", "sums", "result"),
    [
        ("bf16", 70, 72, 40, "f32", "bf16"),
        ("bf16", 64, 64, 64, "f32", "bf16"),
        ("bf16", 70, 67, 40, "bf16", "f8e4m3fn"),
        ("f16", 33, 50, 24, "f16", "f16"),
        ("f32", 70, 33, 20, "f32", "f32"),
        ("f64", 64, 65, 20, "f64", "f64"),
        ("c64", 20, 20, 20, "c64", "f32"),
    ],
)
def test_it_is_done_where_the_sums_are(dtype, m, n, k, sums, result):
    text = with_epilogue(dtype, m, n, k, sums, result)
    if sums == "c64":
        text = text.replace(f"w = f32[{m},{n}] convert(d)", f"w = f32[{m},{n}] real(d)")
    (strategy,) = strategies(agrees(text))
    assert FUSED in strategy


def test_what_is_one_bit():
    text = product("bf16", 70, 66, 40, "f32")[:-2].replace("ROOT ", "")
    (strategy,) = strategies(
        agrees(f"{text} z = f32[] constant(0.5) zs = f32[70,66] broadcast(z), dimensions={{}} "
               "ROOT c = pred[70,66] compare(d, zs), direction=LT }")
    )  # fmt: skip
    assert FUSED in strategy


def test_sums_of_bytes():
    assert FUSED in strategies(agrees(with_epilogue("s8", 40, 40, 70, "s32", "bf16", "nt")))[-1]


def test_large_tiles(monkeypatch):
    monkeypatch.setattr(tensor_core_tiles, "_MANY", 1)
    (strategy,) = strategies(agrees(with_epilogue("bf16", 130, 142, 72)))
    assert strategy.startswith("tiles of 128 x 128")
    assert FUSED in strategy


def test_warpgroups(monkeypatch):
    monkeypatch.setattr(warpgroup_tiles, "_FEW", 1)
    monkeypatch.setattr(warpgroup_tiles, "NARROW", Cut(64, 64, 3))
    module = xl.parse(with_epilogue("bf16", 80, 136, 152))
    (strategy,) = strategies(agrees(module, *eighths(module), target="sm_90a"))
    assert "by warpgroups" in strategy
    assert FUSED in strategy


def test_parts_of_long_sums_are_put_together_first():
    for dtype, m in (("bf16", 16), ("f32", 17)):
        first, second = strategies(agrees(with_epilogue(dtype, m, 24, 2100)))
        assert FUSED not in first
        assert second.startswith("puts ")


@pytest.mark.parametrize(("m", "n"), [(3, 90), (90, 3)])
def test_what_is_done_to_reductions(m, n):
    assert len(strategies(agrees(with_epilogue("bf16", m, n, 300)))) == 1


def test_a_batch_in_another_shape():
    """Loops along two dimensions of the result are one of the product's, and one is along two of its."""
    (strategy,) = strategies(agrees(
        "ENTRY e { x = bf16[6,20,40] parameter(0) y = bf16[6,40,24] parameter(1) m = f32[3,2,24] parameter(2) "
        "d = f32[6,20,24] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1} r = f32[3,2,4,5,24] reshape(d) "
        "b = f32[3,2,4,5,24] broadcast(m), dimensions={0,1,4} s = f32[3,2,4,5,24] add(r, b) "
        "u = f32[360,8] reshape(s) t = f32[8] iota(), iota_dimension=0 ts = f32[360,8] broadcast(t), dimensions={1} "
        "ROOT v = f32[360,8] multiply(u, ts) }"
    ))  # fmt: skip
    assert FUSED in strategy


@pytest.mark.parametrize(
    ("labels", "y", "along"), [("b01f_01io->b01f", "2,9,10,24", 3), ("b01f_01io->bf01", "2,24,9,10", 1)]
)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_convolutions(labels, y, along, dtype):
    (strategy,) = strategies(agrees(
        f"ENTRY e {{ x = {dtype}[2,9,10,16] parameter(0) k = {dtype}[3,3,16,24] parameter(1) b = f32[24] parameter(2) "
        f"c = f32[{y}] convolution(x, k), window={{size=3x3 pad=1_1x1_1}}, dim_labels={labels} "
        f"bs = f32[{y}] broadcast(b), dimensions={{{along}}} s = f32[{y}] add(c, bs) z = f32[] constant(0) "
        f"zs = f32[{y}] broadcast(z), dimensions={{}} r = f32[{y}] maximum(s, zs) ROOT o = {dtype}[{y}] convert(r) }}"
    ))  # fmt: skip
    assert FUSED in strategy


def test_sums_that_something_else_reads_are_stored():
    """A result of the program, say, or a sum of rows."""
    head = ["bf16[70,40]", "bf16[40,72]"], f"d = f32[70,72] dot(p0, p1), {DOT}", "t = f32[70,72] tanh(d)"
    executable = agrees(entry(*head, "r = (f32[70,72], f32[70,72]) tuple(d, t)"))
    assert not any(FUSED in s for s in strategies(executable))
    add = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }\n"
    executable = agrees(entry(
        *head, "z = f32[] constant(0) s = f32[72] reduce(d, z), dimensions={0}, to_apply=add",
        "r = (f32[72], f32[70,72]) tuple(s, t)", before=add,
    ))  # fmt: skip
    assert not any(FUSED in s for s in strategies(executable))


def test_what_loops_widen_is_stored_narrow():
    """They read half as much then."""
    add = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }\n"
    executable = agrees(entry(
        ["bf16[70,40]", "bf16[40,72]"], f"d = f32[70,72] dot(p0, p1), {DOT}", "t = bf16[70,72] convert(d)",
        "u = f32[70,72] convert(t) z = f32[] constant(0)", "s = f32[72] reduce(u, z), dimensions={0}, to_apply=add",
        before=add,
    ))  # fmt: skip
    first, second = executable.program.launches
    assert FUSED in first.kernel.strategy
    assert first.arguments[-1].nbytes == 2 * 70 * 72
    assert second.makes.startswith("%s")


def test_an_operand_is_no_part_of_what_is_done_to_sums():
    """The product needs it as an array."""
    agrees(
        "ENTRY e { x = f32[64,64] parameter(0) y = bf16[64,64] parameter(1) n = bf16[64,64] convert(x) "
        f"d = f32[64,64] dot(n, y), {DOT} w = f32[64,64] convert(n) ROOT s = f32[64,64] add(d, w) }}"
    )


def test_products_of_products():
    """Of two that are added, one ends with its activation and the other reads that."""
    agrees(entry(
        ["bf16[70,40]", "bf16[40,72]", "bf16[40,72]"], f"d = f32[70,72] dot(p0, p1), {DOT}",
        f"f = f32[70,72] dot(p0, p2), {DOT} l = f32[70,72] logistic(d)", "r = f32[70,72] multiply(l, f)",
    ))  # fmt: skip


def test_gradients():
    jax = pytest.importorskip("jax")
    import jax.numpy as jnp

    def loss(w, b, x, y):
        return jnp.mean((jax.nn.gelu(x @ w + b) - y) ** 2)

    shapes = [(40, 24), (24,), (30, 40), (30, 24)]
    given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    agrees(jax.jit(jax.value_and_grad(loss, (0, 1, 2))).lower(*given).compiler_ir("hlo").as_hlo_text())
