"""Programs that are dropped leave nothing, and those that are kept for later are counted by what they take."""

import gc
import tracemalloc

import numpy as np
import pytest

import xloom as xl
from xloom.cpu import compile
from xloom.llvm import jit


def _run(size: int) -> None:
    """A program that no other size shares."""
    text = f"ENTRY m {{ x = f32[{size}] parameter(0) c = f32[] constant({size}.5) b = f32[{size}] broadcast(c), "
    program = xl.compile(xl.parse(text + f"dimensions={{}} ROOT y = f32[{size}] add(x, b) }}"))
    assert program(np.zeros(size, np.float32))[0] == size + 0.5


def _libraries() -> int:
    gc.collect()
    return sum(isinstance(each, jit.Library) for each in gc.get_objects())


def test_dropped_programs_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLOOM_CACHE", "0")
    for size in range(1, 9):
        _run(size)
    before = _libraries()
    tracemalloc.start()
    try:
        held = tracemalloc.get_traced_memory()[0]
        for size in range(9, 33):
            _run(size)
        assert _libraries() <= before
        assert (
            tracemalloc.get_traced_memory()[0] - held < 24 * 16384
        )  # caches of names and rules grow a little where others have filled them
    finally:
        tracemalloc.stop()


def test_kept_programs_are_counted_with_what_linking_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    compile.linked.clear()
    _run(40)
    one, before = compile.linked.size, _libraries()
    assert one > 40 << 10
    monkeypatch.setattr(compile.linked, "most", 3 * one + (16 << 10))
    for size in range(41, 47):
        _run(size)
    assert _libraries() == before + 2
