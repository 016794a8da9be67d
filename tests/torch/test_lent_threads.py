"""Graphs that run on the threads of PyTorch's own operators: values, the pool afterwards, forks, and who decides."""

import itertools
import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from xloom.cpu.runtime.threads.openmp_team import openmp_team
from xloom.torch import lent_threads
from xloom.torch.lent_threads import _Trials

needs_threads = pytest.mark.skipif(
    openmp_team() is None or torch.get_num_threads() < 2, reason="one thread, or a PyTorch without OpenMP"
)


def layers(x, w):
    for _ in range(3):
        x = torch.softmax(torch.relu(x @ w) + x, -1)
    return x, x.sum(0), x.sort(1).values


def compiled_ways(monkeypatch):
    """The graph compiled, and the list whose last element decides on whose threads it runs."""
    ways = [0]
    monkeypatch.setattr(_Trials, "__call__", lambda self, *tables: self._ways[ways[-1]](*tables))
    return torch.compile(layers, backend="xloom"), ways


@needs_threads
def test_values_are_those_of_the_pool_whoever_has_run_last(monkeypatch):
    """Other operators of PyTorch share their work in between, and the pool's workers sleep and are awake."""
    graph, ways = compiled_ways(monkeypatch)
    x, w = torch.randn(200, 300), torch.randn(300, 300) / 10
    expected = graph(x, w)
    for number in range(60):
        ways.append(number % 3 > 0)
        for got, right in zip(graph(x, w), expected, strict=True):
            assert torch.equal(got, right)
        if number % 4 == 0:
            assert torch.equal((torch.ones(500_000) * 2)[-3:], torch.full((3,), 2.0))


@needs_threads
def test_several_threads_at_once(monkeypatch):
    """Each has a team of its own; the pool is of one of them at a time."""
    graph, _ = compiled_ways(monkeypatch)
    turns = itertools.count()
    monkeypatch.setattr(_Trials, "__call__", lambda self, *tables: self._ways[next(turns) % 3 > 0](*tables))
    x, w = torch.randn(200, 300), torch.randn(300, 300) / 10
    expected = graph(x, w)

    def agree(_):
        return all(torch.equal(got, right) for got, right in zip(graph(x, w), expected, strict=True))

    with ThreadPoolExecutor(3) as threads:
        assert all(threads.map(agree, range(90)))


def in_child(graph, x, w, results):
    results.put([y.flatten()[:3].tolist() for y in graph(x, w)])  # nothing that PyTorch would share


@needs_threads
@pytest.mark.skipif(sys.platform != "linux", reason="children are forked")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning", "ignore:.*os.fork:RuntimeWarning")
def test_a_forked_child_does_without_them(monkeypatch):
    graph, ways = compiled_ways(monkeypatch)
    x, w = torch.randn(200, 300), torch.randn(300, 300) / 10
    ways.append(1)
    expected = [y.flatten()[:3].tolist() for y in graph(x, w)]
    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    child = fork.Process(target=in_child, args=(graph, x, w, results))
    child.start()
    try:
        assert results.get(timeout=60) == expected
    finally:
        child.kill()


class Clock:
    """Time that passes where it is told to."""

    def __init__(self):
        self.now = 0

    def takes(self, milliseconds, calls):
        def run(*tables):
            calls.append(milliseconds)
            self.now += int(milliseconds * 1e6)

        return run


@pytest.mark.parametrize(
    ("own", "others", "chosen"), [(4.0, 3.0, 3.0), (4.0, 3.99, 4.0), (4.0, 6.0, 4.0), (0.1, 0.05, 0.1)]
)
def test_the_faster_way_is_found_and_looked_for_again(monkeypatch, own, others, chosen):
    clock, calls = Clock(), []
    monkeypatch.setattr(lent_threads.time, "perf_counter_ns", lambda: clock.now)
    trials = _Trials(clock.takes(own, calls), clock.takes(others, calls))
    for _ in range(250):
        trials(None, None)
    assert calls[-50:] == [chosen] * 50
    assert (others in calls) == (own > 1), "short programs are not worth a trial"
    while clock.now < 20e9:
        trials(None, None)
    own_again = calls[300:].count(own)
    assert own_again > 0 and (chosen == own or own_again < len(calls) / 4)
