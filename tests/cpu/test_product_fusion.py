"""Products whose operands are converted, scaled or cut out a block at a time."""

import re

import numpy as np
import pytest

import xloom as xl
from tests.cpu.test_dot import values
from xloom.codegen.fusion import dot_operand_fusion
from xloom.cpu.loops import panel_emission
from xloom.cpu.prepare import prepared
from xloom.cpu.printers import schedule_text
from xloom.hlo.dtype import DTYPES
from xloom.llvm.target import process_target


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def small(monkeypatch, folder):
    """Treats small operands as large ones, and keeps what was made so from other tests."""
    monkeypatch.setattr(dot_operand_fusion, "_LEAST", 64)
    monkeypatch.setattr(panel_emission, "CACHED", 64 / process_target().caches.last)
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(folder))


def fusions(text):
    return [i for i in prepared(xl.parse(text)).instructions if i.opcode == "fusion"]


SUM = """HloModule m
sum {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y)
}
"""


def check(body, *parameters, fused=1, seed=0):
    """Compares with the interpreter; parameters are types and dimensions."""
    rng = np.random.default_rng(seed)
    arguments = [values(rng, dims, dtype) for dtype, dims in parameters]
    heads = [f"p{k} = {t}[{','.join(map(str, d))}] parameter({k})" for k, (t, d) in enumerate(parameters)]
    text = SUM + "ENTRY e {\n" + "\n".join([*heads, body]) + "\n}\n"
    assert len(fusions(text)) == fused
    got, want = xl.compile(xl.parse(text))(*arguments), xl.evaluate(xl.parse(text), *arguments)
    for x, y in zip(*((v if isinstance(v, tuple) else (v,)) for v in (got, want)), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.dtype == y.dtype
        epsilon = 0.02 if x.dtype.itemsize == 2 else 2e-5
        np.testing.assert_allclose(
            x.astype(np.complex128), y.astype(np.complex128), rtol=epsilon, atol=epsilon * np.abs(y).max()
        )


def scaled(m, k, n, turned, *, types=("f32", "s8"), result="f32", along=1):
    """A product with a matrix that has a scale a column, or one for each place of the depth."""
    x, w = types
    dims = (n, k) if turned else (k, n)
    at = int(turned) ^ along
    d = ",".join(map(str, dims))
    body = f"""
  c = {x}[{d}] convert(p1)
  s = {x}[{d}] broadcast(p2), dimensions={{{at}}}
  w = {x}[{d}] multiply(c, s)
  ROOT r = {result}[{m},{n}] dot(p0, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{int(turned)}}}"""
    check(body, (x, (m, k)), (w, dims), (x, (dims[at],)))


SIZES = [
    (1, 40, 70),
    (1, 300, 1040),
    (2, 100, 1500),
    (3, 33, 47),
    (8, 300, 1100),
    (9, 70, 200),
    (16, 513, 129),
    (40, 64, 64),
    (140, 131, 259),
]


@pytest.mark.parametrize("m,k,n", SIZES)
@pytest.mark.parametrize("turned", [False, True])
def test_a_scale_a_column(m, k, n, turned):
    scaled(m, k, n, turned)


@pytest.mark.parametrize("m,k,n", SIZES)
@pytest.mark.parametrize("turned", [False, True])
def test_pairs_of_narrow_floats(m, k, n, turned):
    scaled(m, k, n, turned, types=("bf16", "s8"), result="bf16", along=0)


@pytest.mark.parametrize("types,result", [(("f64", "f32"), "f64"), (("f16", "u8"), "f16"), (("s32", "s8"), "s32")])
@pytest.mark.parametrize("m", [1, 20])
@pytest.mark.parametrize("turned", [False, True])
def test_other_types(types, result, m, turned):
    scaled(m, 50, 90, turned, types=types, result=result)


@pytest.mark.sampled
@pytest.mark.parametrize("source", ["bf16", "f16", "s8", "u8", "s4", "s16", "pred"])
@pytest.mark.parametrize("m", [1, 5, 30])
@pytest.mark.parametrize("turned", [False, True])
def test_conversions(source, m, turned):
    dims = (200, 60) if turned else (60, 200)
    body = f"""
  w = f32[{dims[0]},{dims[1]}] convert(p1)
  ROOT r = f32[{m},200] dot(p0, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{int(turned)}}}"""
    check(body, ("f32", (m, 60)), (source, dims))


@pytest.mark.parametrize("m", [1, 20])
def test_types_that_products_do_not_load(m):
    body = f"""
  w = f8e4m3fn[60,70] multiply(p1, p1)
  ROOT r = f32[{m},70] dot(p0, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
    check(body, ("f8e4m3fn", (m, 60)), ("f8e4m3fn", (60, 70)))


@pytest.mark.parametrize("n", [1, 6, 50])
@pytest.mark.parametrize("turned", [False, True])
def test_the_left_operand(n, turned):
    dims = (60, 300) if turned else (300, 60)
    body = f"""
  c = f32[{dims[0]},{dims[1]}] convert(p0)
  w = f32[{dims[0]},{dims[1]}] multiply(c, c)
  ROOT r = f32[300,{n}] dot(w, p1), lhs_contracting_dims={{{int(not turned)}}}, rhs_contracting_dims={{0}}"""
    check(body, ("s8", dims), ("f32", (60, n)))


@pytest.mark.parametrize("m", [1, 7, 30])
def test_a_scale_a_group(m):
    body = f"""
  c = f32[64,200] convert(p1)
  g = f32[4,16,200] reshape(c)
  s = f32[4,16,200] broadcast(p2), dimensions={{0,2}}
  w = f32[4,16,200] multiply(g, s)
  f = f32[64,200] reshape(w)
  ROOT r = f32[{m},200] dot(p0, f), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
    check(body, ("f32", (m, 64)), ("s8", (64, 200)), ("f32", (4, 200)))


@pytest.mark.parametrize("m", [1, 7, 30])
def test_a_layer_of_many(m):
    body = f"""
  zero = s32[] constant(0)
  w = f32[1,64,200] dynamic-slice(p1, p2, zero, zero), dynamic_slice_sizes={{1,64,200}}
  f = f32[64,200] reshape(w)
  ROOT r = f32[{m},200] dot(p0, f), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
    check(body, ("f32", (m, 64)), ("f32", (5, 64, 200)), ("s32", ()))


@pytest.mark.parametrize("m", [1, 4, 30])
@pytest.mark.parametrize("turned", [False, True])
def test_batches(m, turned):
    dims = "3,150,40" if turned else "3,40,150"
    body = f"""
  c = f32[{dims}] convert(p1)
  s = f32[{dims}] broadcast(p2), dimensions={{0}}
  w = f32[{dims}] multiply(c, s)
  ROOT r = f32[3,{m},150] dot(p0, w), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
    rhs_contracting_dims={{{1 + turned}}}"""
    check(body, ("f32", (3, m, 40)), ("s8", tuple(map(int, dims.split(",")))), ("f32", (3,)))


@pytest.mark.parametrize("m", [1, 30])
@pytest.mark.parametrize("dims,contracted", [((40, 6, 50), 0), ((6, 40, 50), 1), ((6, 50, 40), 2)])
def test_columns_of_several_dimensions(m, dims, contracted):
    d = ",".join(map(str, dims))
    body = f"""
  c = f32[{d}] convert(p1)
  s = f32[{d}] broadcast(p2), dimensions={{{dims.index(6)}}}
  w = f32[{d}] multiply(c, s)
  ROOT r = f32[{m},6,50] dot(p0, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{contracted}}}"""
    check(body, ("f32", (m, 40)), ("s8", dims), ("f32", (6,)))


def test_complex_numbers():
    body = """
  c = c64[60,70] convert(p1)
  w = c64[60,70] multiply(c, c)
  ROOT r = c64[3,70] dot(p0, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    check(body, ("c64", (3, 60)), ("f32", (60, 70)))


def test_what_others_read_is_in_memory():
    body = """
  w = f32[60,70] multiply(p1, p1)
  d = f32[3,70] dot(p0, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[3,70], f32[60,70]) tuple(d, w)"""
    check(body, ("f32", (3, 60)), ("f32", (60, 70)), fused=0)


def test_a_product_with_itself():
    body = """
  w = f32[60,70] multiply(p0, p0)
  ROOT d = f32[60,60] dot(w, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}"""
    check(body, ("f32", (60, 70)), fused=0)


def test_what_loops_make_they_go_on_with():
    body = """
  zero = f32[] constant(0)
  e = f32[60,70] exponential(p1)
  t = f32[60] reduce(e, zero), dimensions={1}, to_apply=sum
  s = f32[60,70] broadcast(t), dimensions={0}
  w = f32[60,70] divide(e, s)
  ROOT d = f32[3,70] dot(p0, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    check(body, ("f32", (3, 60)), ("f32", (60, 70)), fused=0)


def test_many_rows_read_what_is_in_memory():
    body = """
  w = f32[60,70] multiply(p1, p1)
  ROOT d = f32[1100,70] dot(p0, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    check(body, ("f32", (1100, 60)), ("f32", (60, 70)), fused=0)


def test_a_loop():
    """Weights in a loop, of a layer each."""
    text = """HloModule m
body {
  s = (s32[], f32[4,64], s8[3,64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,64] get-tuple-element(s), index=1
  all = s8[3,64,64] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  part = s8[1,64,64] dynamic-slice(all, i, zero, zero), dynamic_slice_sizes={1,64,64}
  flat = s8[64,64] reshape(part)
  w = f32[64,64] convert(flat)
  y = f32[4,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT r = (s32[], f32[4,64], s8[3,64,64]) tuple(next, y, all)
}
condition {
  s = (s32[], f32[4,64], s8[3,64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[4,64] parameter(0)
  w = s8[3,64,64] parameter(1)
  t = (s32[], f32[4,64], s8[3,64,64]) tuple(zero, x, w)
  l = (s32[], f32[4,64], s8[3,64,64]) while(t), condition=condition, body=body
  ROOT r = f32[4,64] get-tuple-element(l), index=1
}"""
    assert len(fusions(text)) == 1
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((4, 64)).astype(np.float32), rng.integers(-9, 9, (3, 64, 64)).astype(np.int8)
    got = np.asarray(xl.compile(xl.parse(text))(x, w))
    np.testing.assert_allclose(got, x @ w[0].astype(np.float32) @ w[1] @ w[2], rtol=1e-4, atol=1)


@pytest.mark.parametrize("narrow", ["bf16", "f16"])
@pytest.mark.parametrize("m,k,n", [(1, 40, 70), (8, 300, 1100), (40, 64, 64), (140, 600, 259)])
def test_a_converted_result(m, k, n, narrow):
    body = f"""
  d = f32[{m},{n}] dot(p0, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT r = {narrow}[{m},{n}] convert(d)"""
    check(body, ("f32", (m, k)), ("f32", (k, n)), fused=0)


def test_a_result_is_converted_by_the_product():
    text = """HloModule m
ENTRY e {
  x = bf16[32,64] parameter(0)
  w = bf16[64,48] parameter(1)
  d = f32[32,48] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = bf16[32,48] convert(d)
}"""
    assert [str(i.shape.dtype) for i in prepared(xl.parse(text)).instructions] == ["bf16"] * 3


def test_the_schedule_says_what_is_in_a_product():
    text = """HloModule m
ENTRY e {
  x = f32[3,64] parameter(0)
  q = s8[64,48] parameter(1)
  c = f32[64,48] convert(q)
  w = f32[64,48] multiply(c, c)
  ROOT r = f32[3,48] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    assert re.search(r"reads +%q .*\n(.*\n)*.*fuses +%c\S*, %w\S*, %r", schedule_text(xl.parse(text)))


def test_a_large_operand_takes_no_memory(monkeypatch):
    monkeypatch.undo()
    text = """HloModule m
ENTRY e {
  x = f32[4,1024] parameter(0)
  q = s8[1024,2048] parameter(1)
  scale = f32[2048] parameter(2)
  c = f32[1024,2048] convert(q)
  s = f32[1024,2048] broadcast(scale), dimensions={1}
  w = f32[1024,2048] multiply(c, s)
  ROOT r = f32[4,2048] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    memory = xl.compile(xl.parse(text)).memory
    assert memory.peak_bytes < 1.1 * sum(DTYPES[t].bytes * n for t, n in (("s8", 1 << 21), ("f32", 14336)))


@pytest.mark.parametrize("dtype", ["s8", "f8e4m3fn", "s4"])
@pytest.mark.parametrize("rows,depth,columns", [(9, 96, 40), (16, 640, 333), (64, 1100, 1040)])
def test_few_rows_of_narrow_floats(dtype, rows, depth, columns):
    """Made as AMX's tiles, where the processor has them."""
    for dims, side in (((depth, columns), 0), ((columns, depth), 1)):
        shape = f"[{dims[0]},{dims[1]}]"
        body = f"""c = bf16{shape} convert(p1)
  a = bf16{shape} broadcast(p2), dimensions={{{1 - side}}}
  w = bf16{shape} multiply(c, a)
  ROOT d = f32[{rows},{columns}] dot(p0, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{side}}}"""
        check(body, ("bf16", (rows, depth)), (dtype, dims), ("bf16", (columns,)))
