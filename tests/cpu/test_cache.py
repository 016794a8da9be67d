"""What the CPU compiler keeps: in memory, on disk, between processes, and when it must not."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xloom as xl
from xloom.calls import registry
from xloom.compilation_cache import cache
from xloom.cpu import kept_programs
from xloom.errors import XloomError
from xloom.llvm import jit
from xloom.llvm.target import Target
from xloom.stablehlo import conversion, convert

PROGRAM = """HloModule m
less {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT l = pred[] compare(x, y), direction=LT
}
ENTRY e {
  a = f32[64,256] parameter(0)
  c = f32[256] constant({CONSTANT})
  d = f32[64,256] broadcast(c), dimensions={1}
  s = f32[64,256] sort(a), dimensions={1}, to_apply=less
  ROOT r = f32[64,256] add(s, d)
}"""
ARGUMENT = np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32)

is_current = cache.is_current


def program(last: float = 1.0) -> xl.Module:
    return xl.parse(PROGRAM.replace("CONSTANT", ", ".join(["0.5"] * 255 + [str(last)])))


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XLOOM_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.delenv("XLOOM_CACHE", raising=False)
    monkeypatch.setattr(cache, "is_current", lambda: True)  # whoever edits the package meanwhile
    forget()
    yield tmp_path / "kept"
    forget()


def forget() -> None:
    """Makes this process one that has compiled nothing."""
    cache.flush()
    kept_programs.linked.clear()
    jit.object_cache.clear()


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The LLVM modules that went through LLVM."""
    texts: list[str] = []
    original = jit._emitted

    def spy(text: str, *options: Any, **more: Any) -> Any:
        texts.append(text)
        return original(text, *options, **more)

    monkeypatch.setattr(jit, "_emitted", spy)
    return texts


def entries(place: Path) -> list[Path]:
    cache.flush()
    return sorted(p for p in place.rglob("*") if p.is_file())


def check(module: xl.Module, last: float = 1.0) -> None:
    expected = np.sort(ARGUMENT, axis=1) + np.asarray([0.5] * 255 + [last], np.float32)
    np.testing.assert_array_equal(xl.compile(module)(ARGUMENT), expected)


def test_memory_then_disk(emitted: list[str], place: Path):
    check(program())
    assert emitted and entries(place)
    emitted.clear()
    check(program())
    forget()
    for path in entries(place):
        path.chmod(0o444)
    check(program())
    assert emitted == []


def test_units_are_kept_apart_from_programs(emitted: list[str], place: Path):
    check(program())
    texts = list(emitted)
    emitted.clear()
    forget()
    check(program(2.0), 2.0)  # another program, but only its constant differs
    assert emitted == []
    assert len(texts) == len(set(texts)) > 1


def test_what_a_constant_holds_counts(place: Path):
    check(program(1.0), 1.0)
    check(program(2.0), 2.0)
    forget()
    check(program(2.0), 2.0)
    check(program(1.0), 1.0)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "header only", "text", "of another key"])
def test_damaged_entries_are_replaced(place: Path, emitted: list[str], damage: str):
    check(program())
    whole = {path: path.read_bytes() for path in entries(place)}
    for k, (path, data) in enumerate(whole.items()):
        others = list(whole.values())
        path.write_bytes(
            {
                "truncated": data[:-1],
                "flipped": data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
                "empty": b"",
                "header only": data[:40],
                "text": b"no machine code\n",
                "of another key": others[k - 1],
            }[damage]
        )
    emitted.clear()
    forget()
    check(program())
    assert emitted
    assert {path: path.read_bytes() for path in entries(place)} == whole
    emitted.clear()
    forget()
    check(program())
    assert emitted == []


@pytest.mark.parametrize("broken", ["a file", "read-only", "dangling"])
def test_a_folder_that_cannot_be_written(place: Path, monkeypatch: pytest.MonkeyPatch, broken: str):
    if broken == "a file":
        place.write_text("not a folder")
    elif broken == "dangling":
        place.symlink_to(place.parent / "missing" / "too")
    else:
        place.mkdir()
        place.chmod(0o555)
        if os.getuid() == 0:  # who may write everywhere
            monkeypatch.setattr(os, "mkdir", refuse)
    check(program())
    forget()
    check(program())


def refuse(*_: Any, **__: Any) -> None:
    raise PermissionError("read-only file system")


def test_a_full_disk_leaves_nothing_behind(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "replace", refuse)
    check(program())
    assert entries(place) == []


def test_a_user_without_home(monkeypatch: pytest.MonkeyPatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("XLOOM_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    check(program())


def test_switched_off(place: Path, emitted: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XLOOM_CACHE", "0")
    check(program())
    first = sorted(emitted)  # threads finish in any order
    emitted.clear()
    check(program())
    assert sorted(emitted) == first
    assert not place.exists()
    monkeypatch.setenv("XLOOM_CACHE", "off")
    with pytest.raises(XloomError, match="XLOOM_CACHE is 'off'"):
        xl.compile(program())


def test_another_version_compiles_anew(place: Path, emitted: list[str], monkeypatch: pytest.MonkeyPatch):
    check(program())
    before = len(entries(place))
    emitted.clear()
    forget()
    monkeypatch.setattr(cache, "VERSION", "another")
    monkeypatch.setattr(cache, "is_current", is_current)
    check(program())
    assert emitted
    # the files on disk are not of that version: no program of unknown origin is kept
    assert before < len(entries(place)) < 2 * before


def test_another_processor_compiles_anew(emitted: list[str], monkeypatch: pytest.MonkeyPatch):
    check(program())
    emitted.clear()
    forget()
    monkeypatch.setattr(Target, "key", b"another")
    check(program())
    assert emitted


def test_custom_calls_are_looked_up_each_time():
    text = """HloModule m
    ENTRY e {
      a = f32[4] parameter(0)
      ROOT c = f32[4] custom-call(a), custom_call_target="cached?", api_version=API_VERSION_ORIGINAL
    }"""
    for factor in (2, 3):

        @xl.custom_call("cached?")
        def scale(out: Any, x: Any, factor: int = factor) -> None:
            out[...] = x * factor

        try:
            np.testing.assert_array_equal(xl.compile(xl.parse(text))(np.ones(4, np.float32)), [factor] * 4)
        finally:
            registry.remove("cached?")


def test_equal_kernels_of_a_program_are_one(monkeypatch: pytest.MonkeyPatch, emitted: list[str]):
    monkeypatch.setenv("XLOOM_CACHE", "0")
    counts = []
    for number in (1, 1, 12):  # the first also makes what the process needs once
        layers = "".join(
            f"  sort.{k} = f32[64,256] sort(sort.{k - 1}), dimensions={{1}}, to_apply=less\n" for k in range(number)
        )
        text = PROGRAM.replace("CONSTANT", ", ".join(["0"] * 256)).replace("sort(a)", f"sort(sort.{number - 1})")
        text = text.replace("  c = f32", layers.replace("sort.-1", "a") + "  c = f32")
        before = len(emitted)
        np.testing.assert_array_equal(xl.compile(xl.parse(text))(ARGUMENT), np.sort(ARGUMENT, axis=1))
        counts.append(len(emitted) - before)
    assert counts[1] == counts[2]


def test_stablehlo_is_converted_once(place: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("jaxlib")
    text = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.constant dense<NUMBER> : tensor<4xf32>
      %1 = stablehlo.add %a, %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    }"""

    def last_sum(number: str) -> float:
        return xl.compile(xl.from_stablehlo(text.replace("NUMBER", number)))(np.zeros(4, np.float32))[3]

    convert.declarations.clear()
    assert [last_sum(number) for number in ("1.0", "2.0")] == [1, 2]
    monkeypatch.setattr(conversion, "on_deep_stack", refuse)  # its machine code is there, so that it is not read
    assert last_sum("1.0") == 1
    cache.flush()
    convert.declarations.clear()
    assert last_sum("2.0") == 2


def test_the_oldest_entries_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cache._chance, "random", lambda: 0.0)
    folder = cache.Folder(tmp_path / "small", most=cache.DRAWERS * 1000)
    keys = [f"0000{k:04x}" for k in range(8)]
    for age, key in enumerate(keys):
        folder.put(key, bytes(300))
        os.utime(next(tmp_path.rglob(key)), (1000 + age, 1000 + age))
    assert [folder.get(k) is not None for k in keys] == [False] * 6 + [True] * 2


def test_recent_forgets_what_was_not_used():
    recent: cache.Recent[str] = cache.Recent(10 + 3 * cache.ENTRY_BYTES)
    for key in "abc":
        recent.put(key, key, 3)
    recent.get("a")
    recent.put("d", "d", 3)
    assert [recent.get(k) for k in "abcd"] == ["a", None, "c", "d"]
    recent.put("a", "A", 4)
    assert recent.get("a") == "A" and recent.size == recent.most
    before = cache.bytes_in_memory()
    recent.put("e", "too large", recent.most)
    assert [recent.get(k) for k in "acde"] == [None] * 4 and recent.size == 0
    assert before - cache.bytes_in_memory() == recent.most


CHILD = """
import sys
from pathlib import Path
import numpy as np
import xloom as xl
from xloom.compilation_cache import cache
cache.VERSION, cache.is_current = sys.argv[3], lambda: True
text = Path(sys.argv[1]).read_text()
argument = np.load(sys.argv[2])
for last in range(6):
    module = xl.parse(text.replace("CONSTANT", ", ".join(["0.5"] * 255 + [str(last)])))
    expected = np.sort(argument, axis=1) + np.float32([0.5] * 255 + [last])
    np.testing.assert_array_equal(xl.compile(module)(argument), expected)
"""


def test_processes_at_once(tmp_path: Path, place: Path, emitted: list[str]):
    (tmp_path / "program.hlo").write_text(PROGRAM)
    np.save(tmp_path / "argument.npy", ARGUMENT)
    command = [sys.executable, "-c", CHILD, "program.hlo", "argument.npy", cache.VERSION]
    children = [subprocess.Popen(command, cwd=tmp_path) for _ in range(4)]
    assert [child.wait(timeout=300) for child in children] == [0] * 4
    for last in range(6):
        check(program(last), last)
    assert emitted == []
    assert all(len(path.name) == 64 for path in entries(place))  # no temporary files


def test_the_random_numbers_of_the_program_stay_as_they_are():
    random.seed(1)
    wanted = random.getstate()
    xl.compile(program(2.5))
    cache.flush()
    assert random.getstate() == wanted


def test_entries_are_written_in_a_pause_or_when_there_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written = threading.Event()
    monkeypatch.setattr(cache, "_PAUSE", 0.001)
    cache.later(written.set)
    assert written.wait(60)
    monkeypatch.setattr(cache, "_PAUSE", 60.0)
    count = threading.Semaphore(0)
    for _ in range(cache._MANY + 1):
        cache.later(count.release)
    assert count.acquire(timeout=50)
