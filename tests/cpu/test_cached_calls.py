"""Programs with native custom calls, as another process finds them on disk."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xloom as xl
from tests.cpu.call_programs import X
from xloom.calls import register_c, register_symbol, registry
from xloom.calls.c_source import compile_source
from xloom.compilation_cache import cache
from xloom.cpu import compilation, kept_programs

LIMIT = """ENTRY e {{ a = f32[] parameter(0) one = f32[] custom-call(a), custom_call_target="c_limit",
  api_version=API_VERSION_STATUS_RETURNING, metadata={{source_file="a.py" source_line={line}}}
  ROOT two = f32[] custom-call(one), custom_call_target="c_limit", api_version=API_VERSION_STATUS_RETURNING }}"""
PLAIN = 'ENTRY e { a = f32[4] parameter(0) ROOT r = f32[4] custom-call(a), custom_call_target="c_add_one" }'

SEVENS = "void c_add_one(void* o, const void** i) { for (int k = 0; k < 4; ++k) ((float*)o)[k] = 7; }"


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the programs that were not kept."""
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("XLOOM_CACHE", raising=False)
    monkeypatch.setattr(cache, "is_current", lambda: True)
    names: list[str] = []
    original = compilation._made

    def spy(module, *options):
        names.append(module.name)
        return original(module, *options)

    monkeypatch.setattr(compilation, "_made", spy)
    yield names
    cache.flush()


def again(text: str) -> Any:
    cache.flush()
    kept_programs.linked.clear()
    return xl.compile(xl.parse(text))


def test_failures_are_the_calls_of_this_source(c, made):
    c("c_limit")
    assert again(LIMIT.format(line=7))(np.float32(1)) == 3
    kept = again(LIMIT.format(line=8))
    assert len(made) == 1
    with pytest.raises(xl.CustomCallError, match=r"limit reached \(at %one, a.py:8\)"):
        kept(np.float32(5))
    with pytest.raises(xl.CustomCallError, match=r"limit reached \(at %two\)"):
        kept(np.float32(2))
    assert kept(np.float32(1)) == 3


def test_what_is_registered_now_is_called(c, made):
    c("c_add_one")
    assert np.array_equal(again(PLAIN)(X), X + 1)
    registry.remove("c_add_one")
    register_symbol("c_add_one", compile_source(SEVENS))
    assert np.array_equal(again(PLAIN)(X), [7] * 4)
    assert len(made) == 1
    registry.remove("c_add_one")
    register_c("c_add_one", SEVENS)  # whose ABI is now known: it is called with fewer arguments
    assert np.array_equal(again(PLAIN)(X), [7] * 4)
    assert len(made) == 2
    registry.remove("c_add_one")
    with pytest.raises(xl.CustomCallError, match="no custom call 'c_add_one'"):
        again(PLAIN)

    @xl.custom_call("c_add_one")
    def add_two(out, x):
        out[...] = x + 2

    assert np.array_equal(again(PLAIN)(X), X + 2)


def test_results_stay_aligned(c, made):
    c("c_nothing")
    text = 'ENTRY e { a = f32[999] parameter(0) ROOT r = f32[999] custom-call(a), custom_call_target="c_nothing" }'
    for _ in range(2):
        executable = again(text)
        results = [executable(np.ones(999, np.float32)) for _ in range(50)]
        assert all(r.ctypes.data % 64 == 0 for r in results)
        assert executable._aligned_results == {0}  # others are aligned by chance
    assert len(made) == 1


def test_lapack(made):
    jax = pytest.importorskip("jax")
    pytest.importorskip("scipy")
    x = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32)
    x = x @ x.T + 6 * np.eye(6, dtype=np.float32)
    text = jax.jit(jax.numpy.linalg.cholesky).lower(x).as_text()
    for _ in range(2):
        cache.flush()
        np.testing.assert_allclose(xl.compile(xl.from_stablehlo(text))(x), np.linalg.cholesky(x), rtol=1e-5, atol=1e-6)
    assert len(made) == 1
