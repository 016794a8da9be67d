"""Which steps are shared among threads, by the times that runs of them took."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from xloom.cpu.runtime.threads.code import pinned_code
from xloom.cpu.runtime.threads.phase_autotuning_ir import FIRST_REST, LONG_NS, phase_autotuning_ir

_STEP = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @prepare() {
  call void @remember.sites()
  ret void
}
declare i64 @llvm.umin.i64(i64, i64)
@clock = internal global i64 1
define i32 @step(i64 %number, i64 %shared, i64 %alone, i64 %after.shared, i64 %after.alone) {
entry:
  %caller = inttoptr i64 %number to ptr
  %site = call ptr @site(ptr %caller, ptr null, i64 2)
  %how = call { i1, i1 } @shares(ptr %site)
  %is.shared = extractvalue { i1, i1 } %how, 0
  %is.timed = extractvalue { i1, i1 } %how, 1
  %result = zext i1 %is.shared to i32
  %from = load i64, ptr @clock
  %taken = select i1 %is.shared, i64 %shared, i64 %alone
  %to = add i64 %from, %taken
  %after = select i1 %is.shared, i64 %after.shared, i64 %after.alone
  %next = add i64 %to, %after
  store i64 %next, ptr @clock
  br i1 %is.timed, label %time, label %leave
time:
  call void @note(ptr %site, i64 %from, i64 %to)
  %timed = or i32 %result, 2
  ret i32 %timed
leave:
  ret i32 %result
}
"""
Step = Callable[..., int]


@pytest.fixture(scope="module")
def step() -> Step:
    """Runs step `number`, which takes so many nanoseconds shared and alone: 1 if it is shared, 2 if it is timed.

    `after` it, as many pass until its next run.
    """
    step, prepare = pinned_code(phase_autotuning_ir() + _STEP, ("step", "prepare"))
    ctypes.CFUNCTYPE(None)(prepare)()
    run = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * 5)(step)
    return lambda number, shared, alone, after=(0, 0): run(number, shared, alone, *after)


def settled(step: Step, number: int, shared: int, alone: int, after: tuple[int, int] = (0, 0)) -> int:
    """What is done between trials, the first of which tries both."""
    seen = set()
    for _ in range(10_000):
        how = step(number, shared, alone, after)
        if not how & 2:
            assert 3 in seen
            return how
        seen.add(how)
    raise AssertionError("the trial does not end")


@pytest.mark.parametrize(
    ("shared", "alone", "is_shared"),
    [(600, 1_100, 1), (2_000, 1_100, 0), (1_090, 1_100, 0), (700, 500, 0), (100_000, 190_000, 1)],
)
def test_a_step_runs_as_it_takes_less_time(step: Step, shared: int, alone: int, is_shared: int):
    assert settled(step, 1000 + shared, shared, alone) == is_shared


@pytest.mark.parametrize(
    ("after", "is_shared"),
    [((900, 900), 1), ((2_000, 900), 0), ((300_000, 200_000), 0), ((300_000, 300_000), 1), ((3_000_000, 2_000_000), 1)],
)
def test_what_others_wait_for_counts(step: Step, after: tuple[int, int], is_shared: int):
    assert settled(step, 2000 + sum(after), 600, 1_100, after) == is_shared


def test_steps_of_a_loop_are_shared_together(step: Step):
    """By itself, neither gains; but each gives the other its data."""
    assert settled(step, 6, 1_000, 1_000, (1_000, 3_000)) == 1


def test_a_long_step_is_shared_without_a_run_alone(step: Step):
    assert all(step(1, 2 * LONG_NS, LONG_NS) & 1 for _ in range(1000))


def test_one_slow_run_decides_nothing(step: Step):
    times = iter([600] * 120 + [3_000_000] + [600] * 1000)
    found = [step(2, next(times), 1_100) for _ in range(1000)]
    assert found[-1] & 1


def test_steps_that_were_long_while_others_had_the_processors(step: Step):
    times = iter([4 * LONG_NS] * 20 + [600] * 100_000)
    found = [step(5, next(times), 400) for _ in range(10_000)]
    assert found.count(0) > 5_000


def test_what_changes_is_found_out_again(step: Step):
    assert settled(step, 3, 600, 1_100) == 1
    found = [step(3, 2_000, 1_100) for _ in range(10_000)]
    assert set(found[: FIRST_REST - 1]) == {1}
    assert found.count(0) > 5_000


def test_trials_become_rare(step: Step):
    found = [step(4, 3_000, 1_000) for _ in range(200_000)]
    assert 3_000 * sum(how & 1 for how in found[100_000:]) < 100_000 * 1_000 / 64
