"""The native pool: chunks, nesting, several callers, forks, sleep and exit."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from xloom.cpu.runtime.threads import ThreadPool, host_ir, pool, pool_ir
from xloom.cpu.runtime.threads.pool import SPIN_NS
from xloom.environment import NUM_THREADS
from xloom.errors import XloomError
from xloom.thread_count import MOST_THREADS, processor_count, thread_count

TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
PARALLEL_FOR = ctypes.CFUNCTYPE(None, TASK, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

Body = Callable[[int, int], object]

# another test may have brought JAX into the process
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")


def share(on: ThreadPool, body: Body, count: int, grain: int = 1, buffers: int = 0) -> None:
    task = TASK(lambda _, begin, end: body(begin, end) and None)
    PARALLEL_FOR(on.parallel_for_address)(task, buffers, count, grain)


def chunks_of(on: ThreadPool, count: int, grain: int) -> list[tuple[int, int]]:
    chunks: list[tuple[int, int]] = []
    share(on, lambda begin, end: chunks.append((begin, end)), count, grain)
    return sorted(chunks)


def expected_chunks(size: int, count: int, grain: int) -> list[tuple[int, int]]:
    if count <= 0:
        return []
    number = max(1, min(size, count // max(grain, 1)))
    items, longer = divmod(count, number)
    starts = [i * items + min(i, longer) for i in range(number + 1)]
    if items >= 16 * pool_ir.ALIGNED:
        starts = [x - x % pool_ir.ALIGNED for x in starts[:-1]] + starts[-1:]
    return list(itertools.pairwise(starts))


@pytest.fixture(scope="module", params=[(1, 1), (2, 2), (3, 3), (8, 8), (8, 2), (64, 3)], ids=str)
def any_pool(request: pytest.FixtureRequest) -> ThreadPool:
    return ThreadPool(*request.param, finds_out=False)


@pytest.fixture(scope="module")
def four() -> ThreadPool:
    return ThreadPool(4, 4, finds_out=False)


COUNTS = [-5, 0, 1, 2, 3, 5, 7, 8, 9, 16, 63, 64, 65, 127, 1000, 2**40 + 3]
GRAINS = [-1, 0, 1, 2, 3, 7, 8, 64, 100, 2**50]


def test_chunks_follow_from_count_grain_and_size(any_pool: ThreadPool):
    for count in COUNTS:
        for grain in GRAINS:
            assert chunks_of(any_pool, count, grain) == expected_chunks(any_pool.size, count, grain), (count, grain)


def test_buffers_are_handed_on(four: ThreadPool):
    values = (ctypes.c_int64 * 1000)()

    def fill(buffers: int, begin: int, end: int) -> None:
        numbers = (ctypes.c_int64 * 1000).from_address(buffers)
        for i in range(begin, end):
            numbers[i] += i

    PARALLEL_FOR(four.parallel_for_address)(TASK(fill), ctypes.addressof(values), 1000, 1)
    assert list(values) == list(range(1000))


def test_chunks_run_at_the_same_time(four: ThreadPool):
    met = threading.Barrier(4, timeout=120)
    share(four, lambda begin, end: met.wait(), 4)
    assert not met.broken


def test_more_chunks_than_threads_use_every_thread():
    seen: list[int] = []
    met = threading.Barrier(2, timeout=120)

    def body(begin: int, end: int) -> None:
        seen.append(threading.get_native_id())
        met.wait()

    share(ThreadPool(8, 2, finds_out=False), body, 8)
    assert not met.broken
    assert len(seen) == 8
    assert len(set(seen)) == 2


def test_a_single_chunk_runs_in_the_caller(four: ThreadPool):
    seen: list[int] = []
    share(four, lambda begin, end: seen.append(threading.get_native_id()), 7, 4)
    assert seen == [threading.get_native_id()]


def test_nested_loops_run_in_the_thread_that_asks(four: ThreadPool):
    inner: dict[int, list[tuple[int, int, int]]] = {}
    outer: dict[int, int] = {}

    def body(begin: int, end: int) -> None:
        found = inner[begin] = []
        outer[begin] = threading.get_native_id()
        share(four, lambda b, e: found.append((b, e, threading.get_native_id())), 11, 2)

    share(four, body, 4)
    assert sorted(inner) == [0, 1, 2, 3]
    for begin, found in inner.items():
        assert found == [(b, e, outer[begin]) for b, e in expected_chunks(4, 11, 2)]


def test_the_pool_is_free_again_after_nesting(four: ThreadPool):
    share(four, lambda begin, end: share(four, lambda b, e: None, 4), 4)
    met = threading.Barrier(4, timeout=120)
    share(four, lambda begin, end: met.wait(), 4)
    assert not met.broken


def test_several_callers_at_once(four: ThreadPool):
    wrong: list[str] = []

    def caller(number: int) -> None:
        for turn in range(200):
            found = chunks_of(four, 10 + number, 1 + turn % 3)
            if found != expected_chunks(4, 10 + number, 1 + turn % 3):
                wrong.append(f"{number} {turn}: {found}")

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(6)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert not wrong


def test_a_busy_pool_does_not_hold_up_another_caller(four: ThreadPool):
    entered, leave = threading.Event(), threading.Event()
    holder = threading.Thread(target=share, args=(four, lambda b, e: (entered.set(), leave.wait(30)), 4))
    holder.start()
    assert entered.wait(30)
    found: list[tuple[int, int, int]] = []
    share(four, lambda b, e: found.append((b, e, threading.get_native_id())), 9, 1)
    leave.set()
    holder.join()
    assert found == [(b, e, threading.get_native_id()) for b, e in expected_chunks(4, 9, 1)]


def test_workers_and_callers_wake_up_from_sleep(any_pool: ThreadPool):
    for turn in range(20):
        time.sleep(20 * SPIN_NS / 1e9)
        # the first chunk ends long before the rest, so that the caller has to sleep too
        found: list[tuple[int, int]] = []
        share(any_pool, lambda b, e, f=found: (time.sleep(2e-3 if b else 0), f.append((b, e))), 3 + turn % 2)
        assert sorted(found) == expected_chunks(any_pool.size, 3 + turn % 2, 1)


@pytest.mark.parametrize("threads, always", [(2, "true"), (4, "true"), (8, "false")])
def test_workers_of_few_processors_are_always_steered(threads: int, always: str):
    assert f"call void @steer(ptr %a.berth, i1 {always})" in pool_ir.pool_ir(threads, threads, SPIN_NS, False)


def test_workers_compute_with_the_callers_rounding(four: ThreadPool):
    math = ctypes.CDLL(None)
    upward = {"x86_64": 0x800, "aarch64": 0x400000}[os.uname().machine]
    modes: list[int] = []
    met = threading.Barrier(4, timeout=120)
    for wanted in (upward, 0):
        assert math.fesetround(wanted) == 0
        try:
            share(four, lambda b, e: (modes.append(rounding()), met.wait()), 4)
        finally:
            math.fesetround(0)
    assert modes == [1] * 4 + [0] * 4


def rounding() -> int:
    """1 where 1 + 2^-60 rounds up."""
    return int(1.0 + 2.0**-60 * len("x") > 1.0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_signals_are_left_to_the_callers_threads_but_for_faults(four: ThreadPool):
    seen: list[int] = []
    met = threading.Barrier(4, timeout=120)
    share(four, lambda b, e: (seen.append(threading.get_native_id()), met.wait()), 4)
    for thread in set(seen) - {threading.get_native_id()}:
        status = Path(f"/proc/self/task/{thread}/status").read_text()
        blocked = int(status.split("SigBlk:")[1].split()[0], 16)
        assert blocked >> (signal.SIGINT - 1) & 1
        assert blocked >> (signal.SIGPROF - 1) & 1
        assert not blocked >> (signal.SIGSEGV - 1) & 1
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


two_processors = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or processor_count() < 2, reason="needs two processors and a say in their use"
)


@two_processors
def test_a_worker_does_not_wake_up_on_its_callers_processor():
    libc = ctypes.CDLL(None)
    two = ThreadPool(2, 2, finds_out=False)
    workers: list[int] = []
    places: list[int] = []

    def body(begin: int, end: int) -> None:
        met.wait()
        if begin:
            workers.append(threading.get_native_id())
            places.append(libc.sched_getcpu())

    allowed = os.sched_getaffinity(0)
    here = min(allowed)
    met = threading.Barrier(2, timeout=120)
    share(two, body, 2)
    worker = workers[0]
    elsewhere = 0
    try:
        os.sched_setaffinity(0, {here})
        for _ in range(10):
            os.sched_setaffinity(worker, {here})
            share(two, body, 2)
            time.sleep(20 * SPIN_NS / 1e9)
            os.sched_setaffinity(worker, allowed)
            places.clear()
            share(two, body, 2)
            elsewhere += places != [here]
            assert os.sched_getaffinity(worker) == allowed
        assert elsewhere >= 5  # without steering none; a busy machine may move it back before it looks
    finally:
        os.sched_setaffinity(0, allowed)


@two_processors
def test_a_worker_wakes_up_where_there_is_no_other_processor():
    code = """
import ctypes, os, threading, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from xloom.cpu.runtime.threads import ThreadPool
TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
run = ctypes.CFUNCTYPE(None, TASK, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(ThreadPool(2, 2, finds_out=False).parallel_for_address)
met = threading.Barrier(2, timeout=120)
for _ in range(10):
    run(TASK(lambda *chunk: met.wait() and None), None, 2, 1)
    time.sleep(0.002)
print("broken" if met.broken else "met")
"""
    assert run_python(code) == "met"


def test_sleep_without_a_futex(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host_ir, "FUTEX_NUMBER", None)
    assert "pthread_cond_wait" in host_ir.host_ir()
    plain = ThreadPool(4, 4, finds_out=False)
    test_workers_and_callers_wake_up_from_sleep(plain)
    test_chunks_run_at_the_same_time(plain)
    in_child(lambda: test_chunks_run_at_the_same_time(plain))


def test_a_system_and_processor_of_another_kind(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host_ir, "PROCESSOR_IR", {})
    monkeypatch.setattr(host_ir, "LINUX_STEER_IR", host_ir.PLAIN_STEER_IR)
    plain = ThreadPool(4, 4, finds_out=False)
    test_chunks_run_at_the_same_time(plain)


@pytest.mark.parametrize("processor", sorted(host_ir.PROCESSOR_IR))
def test_each_processor_has_code(monkeypatch: pytest.MonkeyPatch, processor: str):
    import llvmlite.binding as llvm

    triple = {"x86_64": "x86_64", "amd64": "x86_64"}.get(processor, "aarch64") + "-unknown-linux-gnu"
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    monkeypatch.setattr(host_ir.platform, "machine", lambda: processor)
    source = host_ir.host_ir() + pool_ir.pool_ir(4, 4, SPIN_NS, False)
    assert "@sched_yield" not in source
    machine = llvm.Target.from_triple(triple).create_target_machine()
    assert "xloom_parallel_for" in machine.emit_assembly(llvm.parse_assembly(source))


def in_child(body: Callable[[], object]) -> None:
    """Run `body` in a forked child, which must end well within a minute."""
    with warnings.catch_warnings():
        # later Pythons warn of a fork in a process with threads, which is what is tested
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            body()
            code = 0
        finally:
            os._exit(code)
    for _ in range(6000):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


def test_a_forked_child_has_workers_of_its_own(four: ThreadPool):
    test_chunks_run_at_the_same_time(four)
    in_child(lambda: test_chunks_run_at_the_same_time(four))
    test_chunks_run_at_the_same_time(four)


def test_a_fork_while_the_pool_is_busy(four: ThreadPool):
    entered, leave = threading.Event(), threading.Event()
    holder = threading.Thread(target=share, args=(four, lambda b, e: (entered.set(), leave.wait(30)), 4))
    holder.start()
    assert entered.wait(30)
    try:
        in_child(lambda: test_chunks_run_at_the_same_time(four))
    finally:
        leave.set()
        holder.join()


def test_a_child_of_a_child(four: ThreadPool):
    in_child(lambda: (share(four, lambda b, e: None, 4), in_child(lambda: share(four, lambda b, e: None, 4))))


def test_the_process_has_one_pool(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(NUM_THREADS.name, raising=False)
    assert pool() is pool()
    in_child(lambda: chunks_of(pool(), 100, 1) == expected_chunks(pool().size, 100, 1) or os._exit(2))


def test_size_is_what_the_variable_says(monkeypatch: pytest.MonkeyPatch):
    for text, size in (("1", 1), (" 12 ", 12), (str(MOST_THREADS), MOST_THREADS), ("", processor_count())):
        monkeypatch.setenv(NUM_THREADS.name, text)
        assert thread_count() == size


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "two", "1e3", "²", "٣", str(MOST_THREADS + 1), "9" * 5000])
def test_nonsense_in_the_variable_is_refused(monkeypatch: pytest.MonkeyPatch, text: str):
    monkeypatch.setenv(NUM_THREADS.name, text)
    with pytest.raises(XloomError, match=NUM_THREADS.name):
        thread_count()


def test_size_is_that_of_the_affinity_mask():
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from xloom.cpu.runtime.threads import pool; print(pool().size)"
    assert run_python(code) == "1"


@pytest.mark.parametrize("pause", [0, 0.05], ids=["spinning", "sleeping"])
def test_the_process_exits_with_workers_around(pause: float):
    code = f"""
import ctypes, time
from xloom.cpu.runtime.threads import ThreadPool
TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
run = ctypes.CFUNCTYPE(None, TASK, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(ThreadPool(4, 4, finds_out=False).parallel_for_address)
run(TASK(lambda *chunk: None), None, 4, 1)
time.sleep({pause})
print("done")
"""
    for _ in range(3):
        assert run_python(code) == "done"


def run_python(code: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != NUM_THREADS.name}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()
