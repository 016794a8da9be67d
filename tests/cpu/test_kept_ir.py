"""LLVM IR that is written once, and read by other processes."""

import pytest

from xloom.compilation_cache import cache
from xloom.errors import SharedCodeError
from xloom.llvm import jit
from xloom.llvm.kept_ir import kept_ir
from xloom.llvm.target import process_target

TEXT = "define void @f() {\n  ret void\n}\n"


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    """A cache in which nothing is."""
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("XLOOM_CACHE", "1")
    monkeypatch.delenv("XLOOM_CHECK", raising=False)
    jit.object_cache.clear()
    yield
    cache.flush()
    jit.object_cache.clear()


def read(text=TEXT):
    written = []
    found = kept_ir("f", lambda: written.append(text) or text, process_target())
    return found, len(written)


def test_what_is_kept_is_not_written_again():
    assert read() == (TEXT, 1)
    assert read() == (TEXT, 0)
    cache.flush()
    jit.object_cache.clear()  # as in another process
    assert read() == (TEXT, 0)


def test_nothing_is_kept_without_a_cache(monkeypatch):
    read()
    monkeypatch.setenv("XLOOM_CACHE", "0")
    assert read() == (TEXT, 1)


def test_a_check_finds_what_the_name_does_not_say(monkeypatch):
    read()
    monkeypatch.setenv("XLOOM_CHECK", "kernels")
    assert read() == (TEXT, 1)
    with pytest.raises(SharedCodeError, match="module of functions"):
        read(TEXT.replace("ret void", "unreachable"))
