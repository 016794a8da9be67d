"""Tasks that nobody waits for: their threads, order, rounding and forks."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable

import pytest
from test_threads import in_child, rounding, run_python

from xloom.cpu.runtime.threads.tasks import Tasks, tasks
from xloom.thread_count import thread_count

TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

# another test may have brought JAX into the process
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")


def run_all(on: Tasks, body: Callable[[int], object], count: int) -> None:
    """Adds `count` tasks and waits for them."""
    done = threading.Semaphore(0)

    @TASK
    def task(number: int | None) -> None:
        body(number or 0)
        done.release()

    add = ctypes.CFUNCTYPE(None, TASK, ctypes.c_void_p)(on.add_address)
    for number in range(count):
        add(task, number)
    for _ in range(count):
        assert done.acquire(timeout=30)


@pytest.fixture(scope="module")
def four() -> Tasks:
    return Tasks(4)


def test_one_thread_runs_tasks_in_the_order_they_came():
    one, order, threads = Tasks(1), [], set()
    for _ in range(3):
        run_all(one, lambda k: (order.append(k), threads.add(threading.get_native_id())), 50)
    assert order == [*range(50)] * 3
    assert len(threads) == 1 and threading.get_native_id() not in threads


def test_tasks_run_at_the_same_time_on_so_many_threads(four: Tasks):
    for _ in range(20):
        met = threading.Barrier(4, timeout=120)
        run_all(four, lambda _, met=met: met.wait(), 4)


def test_a_task_may_add_tasks(four: Tasks):
    seen: list[int] = []
    run_all(four, lambda k: run_all(four, seen.append, 3) if k == 0 else None, 2)
    assert sorted(seen) == [0, 1, 2]


def test_tasks_compute_with_the_rounding_of_who_added_them(four: Tasks):
    math, modes = ctypes.CDLL(None), []
    upward = 0x400000 if math.fesetround(0x400000) == 0 else 0x800
    for wanted in (upward, 0):
        assert math.fesetround(wanted) == 0
        try:
            run_all(four, lambda _: modes.append(rounding()), 4)
        finally:
            math.fesetround(0)
    assert modes == [1] * 4 + [0] * 4


def test_a_forked_child_has_threads_of_its_own(four: Tasks):
    test_tasks_run_at_the_same_time_on_so_many_threads(four)
    in_child(lambda: test_tasks_run_at_the_same_time_on_so_many_threads(four))
    test_tasks_run_at_the_same_time_on_so_many_threads(four)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_where_no_thread_can_start_the_caller_runs_the_task():
    code = """
import ctypes, pathlib, resource, threading
from xloom.cpu.runtime.threads.tasks import Tasks
TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
add = ctypes.CFUNCTYPE(None, TASK, ctypes.c_void_p)(Tasks(2).add_address)
seen = []
task = TASK(lambda number: seen.append((number, threading.get_native_id())))
used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20),) * 2)  # less than a thread's stack
add(task, 1)
add(task, 2)
print(seen == [(k, threading.get_native_id()) for k in (1, 2)])
"""
    assert run_python(code) == "True"


def test_the_process_has_one_queue():
    assert tasks() is tasks() and tasks().size == thread_count()
