"""Of those who want the same entry of the cache at once, one makes it."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

import xloom as xl
from xloom.compilation_cache import cache, first_maker
from xloom.cpu import compilation, kept_programs

KEY = "00" * 32


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("XLOOM_CACHE", raising=False)
    yield tmp_path / "kept" / "cpu" / "making"
    cache.flush()


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as threads:
        yield threads


def find() -> bytes | None:
    return cache.folder().get(KEY)


def first_of(pool: ThreadPoolExecutor, place: Path, make: Callable[[], bytes]) -> tuple[Future, list[Future]]:
    """One that makes the entry, and does not end before the others wait, which would make another one."""
    begun = threading.Event()

    def made() -> bytes:
        begun.set()
        until(lambda: (place / KEY).stat().st_size == 3)
        return make()

    first = pool.submit(first_maker.found_or_made, KEY, find, made)
    assert begun.wait(60)
    return first, [pool.submit(first_maker.found_or_made, KEY, find, lambda: b"other") for _ in range(3)]


def until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not holds():
        pause.wait(0.001)


def keep() -> bytes:
    cache.later(cache.folder().put, KEY, b"entry")
    return b"entry"


def test_the_others_wait_and_find_it(pool: ThreadPoolExecutor, place: Path):
    first, others = first_of(pool, place, keep)
    assert [each.result(60) for each in (first, *others)] == [b"entry"] * 4
    assert list(place.iterdir()) == []
    assert first_maker.found_or_made(KEY, find, lambda: b"other") == b"entry"


def test_when_the_first_keeps_nothing_all_make_it(pool: ThreadPoolExecutor, place: Path):
    first, others = first_of(pool, place, lambda: b"mine")
    assert [each.result(60) for each in (first, *others)] == [b"mine", *[b"other"] * 3]


def test_when_the_first_fails_all_make_it(pool: ThreadPoolExecutor, place: Path):
    def fail() -> bytes:
        raise ValueError("no")

    first, others = first_of(pool, place, fail)
    assert [each.result(60) for each in others] == [b"other"] * 3
    with pytest.raises(ValueError, match="no"):
        first.result(60)
    assert list(place.iterdir()) == []


def test_nobody_waits_forever(pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(first_maker, "PATIENCE", 0.05)
    begun, end = threading.Event(), threading.Event()
    first = pool.submit(first_maker.found_or_made, KEY, find, lambda: begun.set() or end.wait(60))
    assert begun.wait(60)
    try:
        assert first_maker.found_or_made(KEY, find, lambda: b"other") == b"other"
        assert not first.done()
    finally:
        end.set()


def test_without_a_folder_each_makes_it(tmp_path: Path):
    (tmp_path / "kept").write_text("no folder")
    assert first_maker.found_or_made(KEY, find, lambda: b"other") == b"other"


def test_a_program_is_compiled_once(pool: ThreadPoolExecutor, place: Path, monkeypatch: pytest.MonkeyPatch):
    """By the first of several threads, in place of processes: of what they have in common only the disk is asked."""
    monkeypatch.setattr(cache, "is_current", lambda: True)
    monkeypatch.setattr(kept_programs.linked, "get", lambda _: None)
    original, made = compilation._made, []

    def slowly(*given, **more):
        made.append(given)
        until(lambda: next(place.iterdir()).stat().st_size == 3)
        return original(*given, **more)

    monkeypatch.setattr(compilation, "_made", slowly)
    text = "HloModule m\nENTRY e {\n  a = f32[1234] parameter(0)\n  ROOT s = f32[1234] sine(a)\n}"
    for each in [pool.submit(xl.compile, xl.parse(text)) for _ in range(4)]:
        each.result(120)
    assert len(made) == 1
