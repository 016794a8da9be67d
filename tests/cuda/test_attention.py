"""Attention in one kernel, on the emulated GPU."""

from dataclasses import replace

import numpy as np
import pytest

import xloom as xl
from tests.cuda.emulation import agrees, random_array, strategies
from tests.cuda.kernel_programs import attention
from tests.cuda.test_planted_faults import BARRIER, WAIT
from xloom.cuda.emulator.executable import emulated
from xloom.cuda.emulator.launch import EmulatedKernel
from xloom.cuda.lower import lowered
from xloom.cuda.prepare import prepared
from xloom.errors import KernelFaultError
from xloom.llvm.target import target_named


def attends(text):
    """How a program computes what the interpreter does, but that weights are rounded before they are divided.

    Each is off by half a unit of its last place at most, of which there are as many as a sum's; so is the result.
    """
    module = xl.parse(text)
    generator = np.random.default_rng(0)
    given = [random_array(p.shape, generator) for p in module.entry.parameters]
    executable = emulated(module, "sm_80")
    got, want = (np.asarray(f(*given)).astype(np.float64) for f in (executable, lambda *a: xl.evaluate(module, *a)))
    unit = 2.0 ** -(11 if given[0].dtype == np.float16 else 8)
    assert np.abs(got - want).max() <= 4 * unit * np.abs(given[2].astype(np.float64)).max()
    return strategies(executable)


@pytest.mark.parametrize(
    ("dtype", "queries", "keys", "deep", "wide", "options"),
    [
        ("bf16", 70, 70, 32, 32, {}),
        ("bf16", 64, 128, 64, 64, {"mask": "none"}),
        ("bf16", 40, 130, 40, 72, {"mask": "added"}),
        ("bf16", 33, 97, 128, 128, {}),
        ("bf16", 70, 20, 16, 16, {"sums": "bf16"}),
        ("f16", 20, 70, 20, 27, {"result": "f32"}),
        ("bf16", 130, 65, 24, 24, {"lowest": "-2.38e38"}),
    ],
)
def test_agrees(dtype, queries, keys, deep, wide, options):
    (strategy,) = attends(attention(dtype, (2, 3), queries, keys, deep, wide, **options))
    assert strategy.startswith("attention of")


SEEN = "as far as they see"


@pytest.mark.parametrize(("before", "after"), [
    ("direction=GE", "direction=GE"),
    ("compare(i, j), direction=GE", "compare(j, i), direction=LT"),
    ("h = pred[200,200] compare(i, j), direction=GE",
     "gap = s32[] constant(70) gaps = s32[200,200] broadcast(gap), dimensions={} "
     "far = s32[200,200] add(i, gaps) h = pred[200,200] compare(far, j), direction=GT"),
    ("h = pred[200,200] compare(i, j), direction=GE",
     "gap = s32[] constant(-90) gaps = s32[200,200] broadcast(gap), dimensions={} far = s32[200,200] add(i, gaps) "
     "near = pred[200,200] compare(far, j), direction=GE other = pred[200,200] compare(i, j), direction=NE "
     "h = pred[200,200] and(near, other)"),
])  # fmt: skip
@pytest.mark.parametrize("lowest", ["-2e38", "-1"])
def test_keys_that_no_query_of_a_block_sees_are_left_out(before, after, lowest):
    """But where they count, as they do beside nothing else, or where what they have instead is not low."""
    text = attention("bf16", (1, 2), 200, 200, 16, lowest=lowest)
    assert before in text
    (strategy,) = attends(text.replace(before, after))
    assert strategy.endswith(SEEN)


def test_masks_that_are_no_horizon():
    for before, after in (("direction=GE", "direction=LE"), ("select(hs, t, lows)", "select(hs, lows, t)")):
        (strategy,) = attends(attention("bf16", (1, 1), 64, 70, 16, lowest="-3").replace(before, after))
        assert not strategy.endswith(SEEN)


def test_keys_that_are_not_finite():
    """A whole block of keys that does not count, and a query of which none do: NaN as where scores are in memory."""
    text = attention("bf16", (2, 1), 40, 150, 16, mask="added")
    generator = np.random.default_rng(0)
    given = [
        generator.standard_normal(p.shape.dims).astype(p.shape.dtype.numpy) for p in xl.parse(text).entry.parameters
    ]
    given[3][0, :70], given[3][1, :] = -np.inf, -np.inf
    executable = agrees(text, *given)
    result = np.asarray(executable(*given))
    assert np.isfinite(result[0]).all()
    assert np.isnan(result[1]).all()


def lengthened(text):
    """The program with weights as another result."""
    before, _, root = text.rpartition(" ROOT ")
    kind = text.partition("n = bf16")[2].partition(" ")[0]
    result = root.partition(" = ")[2].partition(" ")[0]
    return f"{before} {root[:-2]} ROOT all = (bf16{kind}, {result}) tuple(n, o) }}"


def test_weights_that_something_else_reads_are_stored():
    assert not any("attention" in s for s in strategies(agrees(lengthened(attention("bf16", (1, 2), 32, 32, 16)))))


def test_few_queries_and_deep_ones_are_none():
    for queries, deep in ((8, 32), (32, 160)):
        module = prepared(xl.parse(attention("bf16", (1, 2), queries, 64, deep)))
        assert not any(c.name.startswith("attention") for c in module.computations)


def test_what_is_huge_is_not_divided_first():
    """As products are whose scores would be in memory."""
    module = prepared(xl.parse(attention("bf16", (8, 16), 4096, 4096, 64)))
    assert not any(i.opcode == "while" for i in module.instructions)


def of_jax(function, *shapes):
    jax = pytest.importorskip("jax")
    given = [jax.ShapeDtypeStruct(shape, "bfloat16") for shape in shapes]
    return jax.jit(function).lower(*given).compiler_ir("hlo").as_hlo_text()


def test_what_jax_makes_of_it():
    """Heads lie inside of rows, products are turned, and the result is transposed."""
    jax = pytest.importorskip("jax")
    of_rows = (2, 70, 2, 32)
    for is_causal in (False, True):
        text = of_jax(lambda q, k, v, c=is_causal: jax.nn.dot_product_attention(q, k, v, is_causal=c), *[of_rows] * 3)
        (strategy,) = attends(text)
        assert strategy.startswith("attention of")


def test_without_f32():
    jax = pytest.importorskip("jax")

    def attended(q, k, v, mask):
        return jax.nn.softmax(jax.numpy.tanh(q @ k.mT * 0.125) * 8 + mask, axis=-1) @ v

    (strategy,) = attends(of_jax(attended, *[(2, 2, 40, 32)] * 3, (40, 40)))
    assert strategy.startswith("attention of")


def test_gradients():
    jax = pytest.importorskip("jax")

    def loss(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=True).astype("float32").sum()

    agrees(of_jax(jax.grad(loss, (0, 1, 2)), *[(1, 40, 2, 16)] * 3))


def test_faults_are_found():
    target = target_named("sm_80")
    (launch,) = lowered(xl.parse(attention("bf16", (1, 1), 64, 256, 32)), target).launches

    def run(text):
        memory = [np.zeros(a.nbytes, np.uint8) for a in launch.arguments]
        kernel = replace(launch.kernel, text=text)
        EmulatedKernel(kernel, target).launch(launch.blocks, memory, np.random.default_rng(0))

    run(launch.kernel.text)
    for pattern in (BARRIER, WAIT):
        for found in pattern.finditer(launch.kernel.text):
            with pytest.raises(KernelFaultError):
                run(launch.kernel.text[: found.start()] + launch.kernel.text[found.end() :])
