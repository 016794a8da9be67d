"""`xloom opt --explain fusion`: what became of each instruction, and why two are not in one loop nest."""

import re

import numpy as np
import pytest

import xloom as xl
from xloom.codegen.fusion.explain import fusion_report
from xloom.cpu.prepare import prepared
from xloom.errors import XloomError

SOFTMAX = """HloModule softmax
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[64,128] parameter(0) low = f32[] constant(-inf) zero = f32[] constant(0)
  most = f32[64] reduce(x, low), dimensions={1}, to_apply=max mb = f32[64,128] broadcast(most), dimensions={0}
  d = f32[64,128] subtract(x, mb) e = f32[64,128] exponential(d)
  total = f32[64] reduce(e, zero), dimensions={1}, to_apply=sum tb = f32[64,128] broadcast(total), dimensions={0}
  q = f32[64,128] divide(e, tb) r = f32[128,64] transpose(q), dimensions={1,0}
  w = f32[128,128] parameter(1) p = f32[64,128] dot(q, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[64,128], f32[128,64], f32[64,128]) tuple(q, r, p) }"""


@pytest.fixture(scope="module")
def softmax():
    return prepared(xl.parse(SOFTMAX))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("d", "%d subtract: computed where it is used, in the loop nest of %most, %e, %total, %q"),
        ("e", "%e exponential: stored by a loop nest with %most, %total, %q: 2 places would compute 16384 elements"),
        ("total", "%total reduce: stored by a loop nest .*: a reduce is fused with what it reads, not with what reads"),
        ("%r", "%r transpose: stored by a loop nest: it is a result, or read as an array"),
        ("p", "%p dot: a kernel of its own"),
        ("t", "%t tuple: no code: whose memory a value is"),
    ],
)
def test_what_became_of_one(softmax, name, said):
    assert re.match(said, fusion_report(softmax, (name,)))


def test_two_in_one_loop_nest(softmax):
    assert fusion_report(softmax, ("d", "q")) == "in one loop nest, which stores %most, %e, %total, %q\n"


def test_two_that_are_not(softmax):
    assert fusion_report(softmax, ("q", "r")) == "the loop nests of %q and %r are two: their loops are different\n"
    assert fusion_report(softmax, ("q", "p")) == "not in one loop nest: %p dot: a kernel of its own\n"


def test_all(softmax):
    lines = fusion_report(softmax).splitlines()
    assert lines[0] == "%main:" and len(lines) == 1 + len(softmax.entry.post_order())


def test_a_long_chain_is_cut():
    chain = "\n".join(f"x{k + 1} = f32[8] sine(x{k})" for k in range(150))
    module = xl.parse(f"HloModule m\nENTRY e {{ x0 = f32[8] parameter(0)\n{chain}\nROOT r = f32[8] negate(x150) }}")
    assert "expressions of more than 190 operators, or 120 in each other, are cut" in fusion_report(prepared(module))


def test_a_name_that_passes_have_taken(softmax):
    with pytest.raises(XloomError, match="no instruction %totl in the prepared program") as error:
        fusion_report(softmax, ("totl",))
    assert "did you mean 'total'?" in str(error.value.hint)


def _greatest(count, dim, dims, reduced):
    """The greatest elements along `reduced` of arrays put together along `dim`."""
    left = dims.split(",")[1 - reduced]
    listed = ", ".join(f"p{k}" for k in range(count))
    arrays = "\n".join(f"p{k} = f32[20,20] parameter({k})" for k in range(count))
    return f"""max {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }}
ENTRY main {{ {arrays} low = f32[] constant(-inf)
  y = f32[{dims}] concatenate({listed}), dimensions={{{dim}}} e = f32[{dims}] exponential(y)
  ROOT r = f32[{left}] reduce(e, low), dimensions={{{reduced}}}, to_apply=max }}"""


@pytest.mark.parametrize(
    ("count", "dim", "dims", "reduced", "said"),
    [
        (9, 0, "180,20", 0, "stored by a loop nest.*: a reduction along the arrays put together would choose"),
        (9, 0, "180,20", 1, "computed where it is used"),
        (9, 1, "20,180", 1, "stored by a loop nest.*: a reduction along the arrays put together would choose"),
        (3, 0, "60,20", 0, "computed where it is used"),
    ],
)
def test_many_arrays_reduced_together(count, dim, dims, reduced, said):
    report = fusion_report(prepared(xl.parse(_greatest(count, dim, dims, reduced))), ("y",))
    assert re.match(f"%y concatenate: {said}", report)


def test_rows_do_not_keep_what_they_read_from_being_transposed():
    sums = """HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY main { x = f32[SIZE,SIZE] parameter(0) y = f32[SIZE,SIZE] parameter(1) zero = f32[] constant(0)
  turned = f32[SIZE,SIZE] transpose(y), dimensions={1,0} z = f32[SIZE,SIZE] add(x, turned)
  total = f32[SIZE] reduce(z, zero), dimensions={1}, to_apply=sum ROOT t = (f32[SIZE,SIZE], f32[SIZE]) tuple(z, total) }"""
    small, large = (prepared(xl.parse(sums.replace("SIZE", n))) for n in ("64", "512"))
    assert "in one loop nest" in fusion_report(small, ("z", "total"))
    assert "reads columns, as tiles or side by side, which rows" in fusion_report(large, ("z", "total"))


@pytest.mark.parametrize(
    ("dims", "rows", "said"),
    [
        ("129,200", "0:129", "stored by a loop nest.*: a reshape would read it in another order"),
        ("129,200", "0:5", "computed where it is used"),
        ("100,258", "0:100", "computed where it is used"),
    ],
)
def test_transposes_before_reshapes_that_divide(dims, rows, said):
    columns, count = dims.split(",")[1], int(rows.split(":")[1])
    text = f"""ENTRY main {{ x = f32[129,200] parameter(0) turned = f32[200,129] transpose(x), dimensions={{1,0}}
  e = f32[200,129] sine(turned) y = f32[{dims}] reshape(e) z = f32[{count},{columns}] slice(y), slice={{[{rows}], [0:{columns}]}}
  ROOT r = f32[{count},{columns}] negate(z) }}"""
    module = xl.parse(text)
    assert re.match(f"%turned transpose: {said}", fusion_report(prepared(module), ("turned",)))
    x = np.arange(129 * 200, dtype=np.float32).reshape(129, 200)
    np.testing.assert_allclose(
        xl.compile(module)(x), -np.sin(x.T).reshape(int(dims.split(",")[0]), -1)[:count], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(("taken", "stored"), [(380, True), (360, False)])
def test_a_part_of_a_repeated_array(taken: int, stored: bool):
    # whole repetitions are loops that go along each; the index in a part of one takes divisions
    text = f"""ENTRY e {{ x = f32[9,40] parameter(0) s = f32[9,20] slice(x), slice={{[0:9], [3:23]}}
      r = f32[180] reshape(s) b = f32[3,180] broadcast(r), dimensions={{1}} m = f32[540] reshape(b)
      ROOT c = f32[{taken}] slice(m), slice={{[0:{taken}]}} }}"""
    module = xl.parse(text)
    assert ("%b broadcast: stored" in fusion_report(prepared(module), ("b",))) == stored
    x = np.arange(360, dtype=np.float32).reshape(9, 40)
    assert np.array_equal(xl.compile(module)(x), np.resize(x[:, 3:23], taken))
