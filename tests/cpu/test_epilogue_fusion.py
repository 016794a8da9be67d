"""Products whose sums go to what is done to each of them: values, on operands that programs compute, in all layouts."""

import numpy as np
import pytest

import xloom as xl
from tests.cpu.test_dot import values
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.hlo.dtype import DTYPES
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.target import host_level, target_named

has_tiles = pytest.mark.skipif(not host_level().has_tiles, reason="no AMX, or a process may not use it")
AMX = target_named("x86-64-v4-amx")


def fusions(text):
    return [i for i in prepared(xl.parse(text), target=AMX).instructions if i.opcode == "fusion"]


def check(body, *parameters, fused=1, change=None):
    """Compares with the interpreter; parameters are types and dimensions, which `change` may write into."""
    rng = np.random.default_rng(0)
    arguments = [values(rng, dims, dtype) for dtype, dims in parameters]
    if change:
        change(arguments)
    heads = [f"p{k} = {t}[{','.join(map(str, d))}] parameter({k})" for k, (t, d) in enumerate(parameters)]
    text = "HloModule m\nENTRY e {\n" + "\n".join([*heads, body]) + "\n}\n"
    assert len(fusions(text)) == fused
    got, want = np.asarray(xl.compile(xl.parse(text))(*arguments)), np.asarray(xl.evaluate(xl.parse(text), *arguments))
    assert got.dtype == want.dtype
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = want[np.isfinite(want)]
    np.testing.assert_allclose(got, want, rtol=0.02, atol=0.02 * np.abs(finite).max())


def residual(shape, sums="f32"):
    """What follows a product d: its bias p2, an activation, a residual p3 and another activation."""
    dims = ",".join(map(str, shape))
    along = len(shape) - 1
    return f"""
  widened = f32[{dims}] convert(d)
  biases = f32[{dims}] broadcast(p2), dimensions={{{along}}}
  biased = f32[{dims}] add({"d" if sums == "f32" else "widened"}, biases)
  t = f32[{dims}] tanh(biased)
  gated = f32[{dims}] multiply(t, biased)
  narrow = bf16[{dims}] convert(gated)
  sum = bf16[{dims}] add(narrow, p3)
  zero = bf16[] constant(0)
  zeros = bf16[{dims}] broadcast(zero), dimensions={{}}
  ROOT r = bf16[{dims}] maximum(sum, zeros)"""


SIZES = [
    (128, 64, 128),
    (600, 64, 256),
    (300, 2100, 100),
    (70, 4700, 333),
    (1000, 33, 65),
    (513, 96, 257),
    (999, 7, 40),
]


@has_tiles
@pytest.mark.parametrize("turned", [False, True], ids=["nn", "nt"])
@pytest.mark.parametrize("m,k,n", SIZES)
def test_products(m, k, n, turned):
    w = (n, k) if turned else (k, n)
    body = (
        f"d = f32[{m},{n}] dot(p0, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{int(turned)}}}"
        + residual((m, n))
    )
    check(body, ("bf16", (m, k)), ("bf16", w), ("f32", (n,)), ("bf16", (m, n)))


@has_tiles
def test_bytes():
    body = "d = s32[200,96] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}" + residual(
        (200, 96), "s32"
    )
    small = DTYPES["s8"].numpy

    def change(arguments):
        arguments[0][...] = np.clip(arguments[0], -1, 1).astype(small)

    check(body, ("s8", (200, 64)), ("s8", (64, 96)), ("f32", (96,)), ("bf16", (200, 96)), change=change)


@has_tiles
def test_batches_and_a_reshape():
    body = """
  d = f32[3,80,96] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  flat = f32[240,96] reshape(d)
  biases = f32[240,96] broadcast(p2), dimensions={0}
  ROOT r = f32[240,96] multiply(flat, biases)"""
    check(body, ("bf16", (3, 80, 40)), ("bf16", (3, 40, 96)), ("f32", (240,)))


CONVOLUTIONS = [(2, 14, 64, 64, 3, 1, 1), (1, 56, 64, 256, 1, 0, 1), (5, 20, 32, 40, 3, 1, 2), (9, 7, 64, 64, 3, 1, 1)]
FEW_CHANNELS = [(2, 60, 3, 64, 7, 3, 2), (2, 33, 5, 48, 5, 2, 1), (8, 96, 3, 128, 16, 0, 16), (1, 40, 11, 600, 3, 1, 1)]
"""Lines of windows are no whole number of tiles."""


def convolution(images, side, features, outputs, taps, padding, stride):
    out = (side + 2 * padding - taps) // stride + 1
    shape = images, out, out, outputs
    pad = f"{padding}_{padding}x{padding}_{padding}"
    body = (
        f"d = f32[{','.join(map(str, shape))}] convolution(p0, p1), window={{size={taps}x{taps} "
        f"stride={stride}x{stride} pad={pad}}}, dim_labels=b01f_01io->b01f"
    ) + residual(shape)
    x, w = (images, side, side, features), (taps, taps, features, outputs)
    return body, ("bf16", x), ("bf16", w), ("f32", (outputs,)), ("bf16", shape)


@has_tiles
@pytest.mark.parametrize("problem", CONVOLUTIONS + FEW_CHANNELS, ids=lambda p: "-".join(map(str, p)))
def test_convolutions(problem):
    check(*convolution(*problem))


@has_tiles
def test_zeros_beside_the_input_meet_infinities():
    def change(arguments):
        arguments[1][0, 1, 3, 5] = np.inf

    check(*convolution(2, 14, 64, 64, 3, 1, 1), change=change)


@has_tiles
@pytest.mark.parametrize("outputs,taps", [(64, 8), (72, 1)])
def test_sums_that_are_formed_in_other_ways(outputs, taps, monkeypatch):
    """What is no product of tiles gives its sums to the epilogue when all are there."""
    from xloom.cpu.kernels.convolution import emission
    from xloom.cpu.kernels.matmul import multiply

    monkeypatch.setattr(emission, "is_tiled", lambda *_: False)
    monkeypatch.setattr(multiply, "is_tiled", lambda *_: False)
    monkeypatch.setattr("xloom.cpu.kernel_modules.deduplication.find_kernel", lambda *_: None)
    monkeypatch.setenv("XLOOM_CACHE", "0")
    check(*convolution(2, 20, 24, outputs, taps, 1 if taps > 1 else 0, 1))


def test_what_others_read_is_stored():
    body = """
  d = f32[128,128] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[128,128] exponential(d)
  t = f32[128,128] transpose(d), dimensions={1,0}
  ROOT r = f32[128,128] add(e, t)"""
    heads = "p0 = bf16[128,64] parameter(0)\n p1 = bf16[64,128] parameter(1)"
    assert not fusions(f"HloModule m\nENTRY e {{\n {heads} {body}\n}}")


def test_targets_without_tiles():
    text = """HloModule m
ENTRY e {
  a = bf16[128,64] parameter(0)
  w = bf16[64,128] parameter(1)
  d = f32[128,128] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[128,128] exponential(d)
}"""
    assert len(fusions(text)) == 1
    others = prepared(xl.parse(text), target=target_named("x86-64-v4-bf16")).instructions
    assert all(i.opcode != "fusion" for i in others)


def test_loops_of_what_makes_an_operand_are_vectors_before_llvm_reads_them():
    text = """ENTRY e {
      a = f32[256,1024] parameter(0)
      b = s8[1024,1024] parameter(1)
      c = f32[1024,1024] convert(b)
      s = f32[1024] parameter(2)
      t = f32[1024,1024] broadcast(s), dimensions={1}
      m = f32[1024,1024] multiply(c, t)
      ROOT d = f32[256,1024] dot(a, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }"""
    _, _, program = lowered(prepared(xl.parse(text), target=AMX), AMX)
    assert len(fusions(text)) == 1
    assert PassPipeline.LOOPS not in {module.pipeline for module in program.modules.values()}
