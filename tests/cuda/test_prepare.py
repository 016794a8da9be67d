"""What is done to programs for the sake of a GPU's kernels."""

import numpy as np
import pytest

import xloom as xl
from tests.cuda import kernel_programs as made
from tests.cuda.emulation import agrees, strategies
from xloom.cuda.lower import lowered
from xloom.cuda.program import CountedLoop, Launch
from xloom.llvm.target import target_named


def attention(heads, length, width):
    operand, batch = f"bf16[{heads},{length},{width}]", "lhs_batch_dims={0}, rhs_batch_dims={0}"
    scores = f"[{heads},{length},{length}]"
    return made.entry(
        [operand] * 3,
        f"s = f32{scores} dot(p0, p1), {batch}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}",
        f"e = f32{scores} exponential(s) w = bf16{scores} convert(e)",
        f"r = {operand} dot(w, p2), {batch}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}",
    )


def test_attention_is_no_loop_over_blocks():
    """Multiprocessors take blocks at once, not one after another; only what memory may lack room for is divided.

    What is between its products, here no softmax, is a part of the first one.
    """
    target = target_named("sm_90a")
    steps = lowered(xl.parse(attention(96, 512, 64)), target).steps
    assert [type(step) for step in steps] == [Launch] * 2
    steps = lowered(xl.parse(attention(96, 4096, 64)), target).steps
    assert any(isinstance(step, CountedLoop) for step in steps)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "s32"])
@pytest.mark.parametrize("is_largest", ["true", "false"])
def test_top_k_is_sorted(dtype, is_largest):
    executable = agrees(
        made.entry([f"{dtype}[5,300]"], f"t = ({dtype}[5,7], s32[5,7]) topk(p0), k=7, largest={is_largest}")
    )
    assert "sorted in shared memory" in strategies(executable)[0]


def selection(dtype, padding):
    side = 4 + padding
    return made.entry(
        [f"{dtype}[2,9,9,3]", f"{dtype}[2,{side},{side},3]"],
        f"i = {dtype}[] constant(2)",
        f"s = {dtype}[2,9,9,3] select-and-scatter(p0, p1, i), window={{size=1x3x3x1 stride=1x2x2x1 "
        f"pad=0_0x{padding}_{padding}x{padding}_{padding}x0_0}}, select=ge, scatter=add",
        before=made.operator("add", dtype)
        + f"ge {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }}\n",
    )


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("padding", [0, 1])
def test_selections_are_scattered_by_many_threads(dtype, padding):
    """Of equal elements the first is selected, as there are many of after a relu, and NaNs as the interpreter does."""
    generator = np.random.default_rng(0)
    module = xl.parse(selection(dtype, padding))
    x, source = (generator.integers(-2, 3, p.shape.dims).astype(p.shape.dtype.numpy) for p in module.entry.parameters)
    x[0, 4, 4, 0] = x[1, 0, 0, 1] = np.nan
    executable = agrees(module, x, source)
    assert "by atomic fadd" in " ".join(strategies(executable))
    assert not any("processor's kernel" in strategy for strategy in strategies(executable))
