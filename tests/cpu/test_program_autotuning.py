"""Which programs one thread does as a whole, by the times that runs of them took."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from xloom.cpu.runtime.threads.code import pinned_code
from xloom.cpu.runtime.threads.phase_autotuning_ir import phase_autotuning_ir
from xloom.cpu.runtime.threads.program_autotuning_ir import (
    BEGIN_PASS,
    BEGIN_RUN,
    END_RUN,
    FIRST_RUNS,
    SHORT_NS,
    program_autotuning_ir,
)

_RUN = f"""
@limit = internal global i64 2
@busy = internal global i32 0
@clock = internal global i64 1
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
define internal i64 @now() {{
  %now = load i64, ptr @clock
  ret i64 %now
}}
define void @prepare() {{
  call void @remember.programs()
  ret void
}}
; What takes so long, shared or alone: which of the two it was.
define internal i1 @take(i64 %shared, i64 %alone) {{
  %is.alone = call i1 @runs_alone()
  %taken = select i1 %is.alone, i64 %alone, i64 %shared
  %from = load i64, ptr @clock
  %to = add i64 %from, %taken
  store i64 %to, ptr @clock
  ret i1 %is.alone
}}
define i32 @run(ptr %main, i64 %shared, i64 %alone) {{
  %begun = call i64 @{BEGIN_RUN}(ptr %main)
  %is.alone = call i1 @take(i64 %shared, i64 %alone)
  call void @{END_RUN}(ptr %main, i64 %begun)
  %word = zext i1 %is.alone to i32
  %is.timed = icmp ugt i64 %begun, 1
  %mark = select i1 %is.timed, i32 2, i32 0
  %found = or i32 %word, %mark
  ret i32 %found
}}
"""
_PASS = f"""
define i32 @run_pass(ptr %main, ptr %loop, i64 %shared, i64 %alone) {{
  %run = call i64 @{BEGIN_RUN}(ptr %main)
  %begun = call i64 @{BEGIN_PASS}(ptr %loop)
  %is.alone = call i1 @take(i64 %shared, i64 %alone)
  call void @{END_RUN}(ptr %loop, i64 %begun)
  %is.still = call i1 @runs_alone()
  call void @{END_RUN}(ptr %main, i64 %run)
  %pass = zext i1 %is.alone to i32
  %still = select i1 %is.still, i32 2, i32 0
  %found = or i32 %pass, %still
  ret i32 %found
}}
"""
Run = Callable[[int, int, int], int]
RunPass = Callable[[int, int, int, int], int]


def prepared(name: str) -> int:
    """The address of a function of a module of its own."""
    code, prepare = pinned_code(phase_autotuning_ir() + program_autotuning_ir(True) + _RUN + _PASS, (name, "prepare"))
    ctypes.CFUNCTYPE(None)(prepare)()
    return code


@pytest.fixture(scope="module")
def run() -> Run:
    """Runs program `number`, which takes so many nanoseconds shared and alone: 1 if it is alone, 2 if it is timed."""
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(prepared("run"))


@pytest.fixture(scope="module")
def run_pass() -> RunPass:
    """Runs a program with a pass of a loop, both by number: 1 if the pass is alone, 2 if the program is, after it."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return kind(prepared("run_pass"))


def settled(run: Run, number: int, shared: int, alone: int) -> int:
    """What is done after the first trial, which begins after `FIRST_RUNS`."""
    assert {run(number, shared, alone) for _ in range(FIRST_RUNS)} == {0}
    seen = set()
    for _ in range(10_000):
        how = run(number, shared, alone)
        if not how & 2 and seen:
            assert seen == ({2, 3} if shared < SHORT_NS else {2})
            return how
        seen |= {how} & {2, 3}
    raise AssertionError("the trial does not end")


@pytest.mark.parametrize(
    ("shared", "alone", "is_alone"),
    [
        (100_000, 190_000, 0),
        (100_000, 80_000, 1),
        (3_000, 2_000, 1),
        (100_000, 99_000, 0),
        (2 * SHORT_NS, SHORT_NS, 0),
    ],
)
def test_a_program_runs_as_it_takes_less_time(run: Run, shared: int, alone: int, is_alone: int) -> None:
    assert settled(run, shared + alone, shared, alone) == is_alone


def test_a_program_that_is_clearly_slower_alone_is_tried_briefly(run: Run) -> None:
    found = [run(7, 100_000, 190_000) for _ in range(100_000)]
    assert sum(how & 1 for how in found) < 200


def test_what_changes_is_found_out_again(run: Run) -> None:
    assert settled(run, 9, 100_000, 50_000) == 1
    found = [run(9, 100_000, 150_000) for _ in range(10_000)]
    assert found[-1] == 0


def test_one_slow_run_decides_nothing(run: Run) -> None:
    times = iter([100_000] * 30 + [90_000_000] + [100_000] * 10_000)
    found = [run(11, next(times), 110_000) for _ in range(10_000)]
    assert found[-1] == 0


def test_a_pass_runs_as_it_takes_less_time_and_ends_no_run(run_pass: RunPass) -> None:
    found = [run_pass(3, 4, 20_000, 10_000) for _ in range(10_000)]
    assert set(found) == {0, 1, 3}  # 2 would be one that is shared in a program that is not
    assert found[-1] & 1
    assert [run_pass(5, 6, 10_000, 20_000) for _ in range(10_000)][-1] == 0
