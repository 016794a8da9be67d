"""Programs that are dropped leave nothing, and those that are kept for later are counted by what they take."""

import ctypes
import gc
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import xloom as xl
from xloom.cpu import kept_programs
from xloom.llvm import jit


def _run(size: int) -> None:
    """A program that no other size shares."""
    text = f"ENTRY m {{ x = f32[{size}] parameter(0) c = f32[] constant({size}.5) b = f32[{size}] broadcast(c), "
    program = xl.compile(xl.parse(text + f"dimensions={{}} ROOT y = f32[{size}] add(x, b) }}"))
    assert program(np.zeros(size, np.float32))[0] == size + 0.5


def _libraries() -> int:
    gc.collect()
    return sum(isinstance(each, jit.Library) for each in gc.get_objects())


def dropped_programs_leave_nothing() -> None:
    for size in range(1, 9):
        _run(size)
    before = _libraries()
    tracemalloc.start()
    held = tracemalloc.get_traced_memory()[0]
    for size in range(9, 33):
        _run(size)
    assert _libraries() == before
    assert tracemalloc.get_traced_memory()[0] - held < 24 * 4096


def kept_programs_are_counted_with_what_linking_takes() -> None:
    kept_programs.linked.clear()
    _run(40)
    one, before = kept_programs.linked.size, _libraries()
    assert one > 40 << 10
    kept_programs.linked.most = 3 * one + (16 << 10)
    for size in range(41, 47):
        _run(size)
    assert _libraries() == before + 2


def _resident() -> int:
    """KiB that are no file's."""
    found = re.search(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1])


def libraries_that_are_gone_leave_nothing_in_llvm() -> None:
    code = jit.process_code("define i32 @seven() { ret i32 7 }")
    first = jit.Library([code], ["seven"])
    before = 0
    for number in range(800):
        jit.Library([code], ["seven"])
        if number == 200:
            before = _resident()
    assert _resident() - before < 1500  # LLVM keeps 10 KiB or more of each until its linker goes
    assert first.function("seven", ctypes.CFUNCTYPE(ctypes.c_int32))() == 7  # its linker is still there


@pytest.mark.parametrize(
    ("check", "cache"),
    [
        (dropped_programs_leave_nothing, "0"),
        (kept_programs_are_counted_with_what_linking_takes, "1"),
        (libraries_that_are_gone_leave_nothing_in_llvm, "1"),
    ],
)
def test_in_a_process_of_its_own(check, cache) -> None:
    """As other tests leave programs and fill caches."""
    code = f"from tests.cpu.test_program_memory import {check.__name__} as check; check()"
    environment = {**os.environ, "XLOOM_CACHE": cache}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
