"""Rows fetched while those before are computed, of arrays so large that no cache holds them; here of small ones."""

import numpy as np
import pytest

import xloom as xl
from xloom.cpu.loops import software_prefetch
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.llvm.target import process_target

SOFTMAX = """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
ENTRY e { x = f32[DIMS] parameter(0) low = f32[] constant(-inf) zero = f32[] constant(0)
  m = f32[ROWS] reduce(x, low), dimensions={INNER}, to_apply=max
  mb = f32[DIMS] broadcast(m), dimensions={OUTER} d = f32[DIMS] subtract(x, mb) e = f32[DIMS] exponential(d)
  s = f32[ROWS] reduce(e, zero), dimensions={INNER}, to_apply=add
  sb = f32[DIMS] broadcast(s), dimensions={OUTER} ROOT y = f32[DIMS] divide(e, sb) }"""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(software_prefetch, "CACHED", (1 << 10) / process_target().caches.last)


def _softmax(dims, inner):
    outer = [k for k in range(len(dims)) if k not in inner]
    named = {"DIMS": dims, "ROWS": [dims[k] for k in outer], "INNER": inner, "OUTER": outer}
    text = SOFTMAX
    for name, numbers in named.items():
        text = text.replace(name, ",".join(map(str, numbers)))
    return xl.parse(text)


def _text(module):
    return "".join(m.text for m in lowered(prepared(module), process_target())[-1].modules.values())


@pytest.mark.parametrize(
    ("dims", "inner"),
    [((65, 256), [1]), ((64, 1024), [1]), ((66, 1300), [1]), ((33, 2, 700), [2]), ((64, 20, 50), [1, 2])],
)
def test_rows_of_any_length(dims, inner):
    module = _softmax(dims, inner)
    assert "llvm.prefetch" in _text(module)
    x = np.random.default_rng(0).standard_normal(dims).astype(np.float32)
    e = np.exp(x - x.max(tuple(inner), keepdims=True))
    np.testing.assert_allclose(xl.compile(module)(x), e / e.sum(tuple(inner), keepdims=True), rtol=2e-6)


def test_nothing_is_fetched_that_is_in_the_caches(monkeypatch):
    monkeypatch.setattr(software_prefetch, "CACHED", 64)
    assert "llvm.prefetch" not in _text(_softmax((70, 1024), [1]))


def test_short_rows_are_left_to_the_processor():
    assert "llvm.prefetch" not in _text(_softmax((100, 200), [1]))


def test_a_pass_that_writes_fetches_nothing():
    module = xl.parse(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) } "
        "ENTRY e { x = f32[70,1024] parameter(0) z = f32[] constant(0) s = f32[70] reduce(x, z), dimensions={1}, "
        "to_apply=add b = f32[70,1024] broadcast(s), dimensions={0} ROOT y = f32[70,1024] divide(x, b) }"
    )
    assert "llvm.prefetch" not in _text(module)
