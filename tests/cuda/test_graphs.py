"""Programs that run again on the same arrays are CUDA graphs. On a simulated driver."""

import numpy as np
import pytest

import xloom as xl
from tests.cuda.simulation import simulated_gpus
from xloom.cuda.driver.entry_points import CONDITIONAL_NODES
from xloom.cuda.program import Launch
from xloom.cuda.run_time import graphs, transfers
from xloom.cuda.run_time.conditional_graphs import ConditionalGraph
from xloom.cuda.run_time.executable import CudaExecutable

X = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)
MANY = """HloModule many
ENTRY e { x = f32[8,8] parameter(0)
  a = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[8,8] dot(a, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[8,8] dot(b, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT d = f32[8,8] dot(c, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""


def expected(x):
    a = x @ x
    b = a @ x
    return (b @ a) @ b


@pytest.fixture
def on_gpu():
    (gpu,), machine = simulated_gpus()
    executable = CudaExecutable(xl.parse(MANY), gpu.target)
    assert (executable.tape.nodes or 0) >= graphs.FEWEST
    return gpu, machine, executable


def launched(gpu, machine, executable, array):
    """A run, whose result is copied and given back; how many kernels and graphs the host launched."""
    before = [machine.calls.count(name) for name in ("cuLaunchKernel", "cuGraphLaunch")]
    (found,) = executable.run(gpu, [array])
    value = transfers.to_host(found)
    after = [machine.calls.count(name) for name in ("cuLaunchKernel", "cuGraphLaunch")]
    return value, found, *(b - a for a, b in zip(before, after, strict=True))


def test_the_second_run_on_the_same_arrays_makes_a_graph(monkeypatch, on_gpu):
    gpu, machine, executable = on_gpu
    x = transfers.to_device(X, gpu)
    with gpu:
        same = gpu.memory.allocate(X.nbytes)
    monkeypatch.setattr(executable, "_results", lambda *arguments: [same])
    kernels = sum(isinstance(step, Launch) for step in executable.tape.made_from)
    for number, wanted in enumerate([(kernels, 0), (kernels, 1), (0, 1), (0, 1)]):
        value, _, *counts = launched(gpu, machine, executable, x)
        assert tuple(counts) == wanted, number
        np.testing.assert_allclose(value, expected(X), rtol=1e-4)
    other = transfers.to_device(X + 1, gpu)
    value, _, *counts = launched(gpu, machine, executable, other)
    assert counts == [kernels, 0]
    np.testing.assert_allclose(value, expected(X + 1), rtol=1e-4)


def test_few_graphs_are_kept(monkeypatch, on_gpu):
    gpu, machine, executable = on_gpu
    monkeypatch.setattr(graphs, "KEPT", 2)
    with gpu:
        same = gpu.memory.allocate(X.nbytes)
    monkeypatch.setattr(executable, "_results", lambda *arguments: [same])
    arrays = [transfers.to_device(X + k, gpu) for k in range(4)]
    for k, array in enumerate(arrays):
        for _ in range(2):
            value, *_ = launched(gpu, machine, executable, array)
            np.testing.assert_allclose(value, expected(X + k), rtol=1e-4)
    assert machine.calls.count("cuGraphInstantiateWithFlags") == 4
    assert machine.calls.count("cuGraphExecDestroy") >= 1


def test_checked_launches_are_no_graphs(monkeypatch, on_gpu):
    gpu, machine, executable = on_gpu
    monkeypatch.setenv("XLOOM_CHECK", "launches")
    x = transfers.to_device(X, gpu)
    for _ in range(3):
        launched(gpu, machine, executable, x)
    assert "cuGraphLaunch" not in machine.calls


WHILE = """HloModule doubled
condition { p = (f32[8,8], f32[]) parameter(0) x = f32[8,8] get-tuple-element(p), index=0
  limit = f32[] get-tuple-element(p), index=1 s = f32[1,1] slice(x), slice={[7:8], [7:8]} v = f32[] reshape(s)
  ROOT r = pred[] compare(v, limit), direction=LT }
body { p = (f32[8,8], f32[]) parameter(0) x = f32[8,8] get-tuple-element(p), index=0
  limit = f32[] get-tuple-element(p), index=1 y = f32[8,8] add(x, x) ROOT t = (f32[8,8], f32[]) tuple(y, limit) }
ENTRY e { x = f32[8,8] parameter(0) limit = f32[] parameter(1) p = (f32[8,8], f32[]) tuple(x, limit)
  w = (f32[8,8], f32[]) while(p), condition=condition, body=body ROOT r = f32[8,8] get-tuple-element(w), index=0 }"""
NESTED = """HloModule nested
less { p = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 l = f32[] get-tuple-element(p), index=1
  n = s32[] convert(l) ROOT r = pred[] compare(i, n), direction=LT }
more { p = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1)
  j = s32[] add(i, one) l = f32[] get-tuple-element(p), index=1 ROOT t = (s32[], f32[]) tuple(j, l) }
zero { x = f32[8,8] parameter(0) ROOT n = f32[8,8] negate(x) }
one { x = f32[8,8] parameter(0) ROOT n = f32[8,8] add(x, x) }
two { x = f32[8,8] parameter(0) ROOT n = f32[8,8] multiply(x, x) }
condition { p = (s32[], f32[8,8], f32[]) parameter(0) i = s32[] get-tuple-element(p), index=0
  l = f32[] get-tuple-element(p), index=2 n = s32[] convert(l) ROOT r = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[8,8], f32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1)
  x = f32[8,8] get-tuple-element(p), index=1 l = f32[] get-tuple-element(p), index=2 start = s32[] constant(0)
  q = (s32[], f32[]) tuple(start, l) w = (s32[], f32[]) while(q), condition=less, body=more
  c = s32[] get-tuple-element(w), index=0 f = f32[] convert(c) b = f32[8,8] broadcast(f), dimensions={}
  y = f32[8,8] conditional(i, x, x, x), branch_computations={zero, one, two} z = f32[8,8] add(y, b)
  j = s32[] add(i, one) ROOT t = (s32[], f32[8,8], f32[]) tuple(j, z, l) }
ENTRY e { x = f32[8,8] parameter(0) l = f32[] parameter(1) i = s32[] constant(-1)
  p = (s32[], f32[8,8], f32[]) tuple(i, x, l)
  w = (s32[], f32[8,8], f32[]) while(p), condition=condition, body=body ROOT r = f32[8,8] get-tuple-element(w), index=1 }"""
CHOSEN = """HloModule chosen
yes { x = f32[8,8] parameter(0) ROOT n = f32[8,8] negate(x) }
no { x = f32[8,8] parameter(0) y = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT n = f32[8,8] add(x, y) }
ENTRY e { x = f32[8,8] parameter(0) l = f32[] parameter(1) n = f32[] constant(2)
  p = pred[] compare(l, n), direction=LT ROOT r = f32[8,8] conditional(p, x, x), true_computation=yes,
  false_computation=no }"""


def decided(monkeypatch, text, seed, bounds):
    """Runs of a program on the same arrays, whose bound is another each time: what it gives and what it should, and how
    many numbers the host read."""
    (gpu,), machine = simulated_gpus(seed=seed)
    module = xl.parse(text)
    executable = CudaExecutable(module, gpu.target)
    assert executable.decides
    with gpu:
        same = gpu.memory.allocate(X.nbytes)
    monkeypatch.setattr(executable, "_results", lambda *arguments: [same])
    x, limit = (transfers.to_device(np.asarray(a, np.float32), gpu) for a in (X + 1, 0))
    gpu.synchronize()
    for bound in bounds:
        written = np.array(bound, np.float32)
        with gpu:
            gpu.driver.call("cuMemcpyHtoDAsync_v2", limit.pointer, written.ctypes.data, 4, gpu.compute)
            gpu.synchronize()
        before = machine.calls.count("cuMemcpyDtoHAsync_v2")
        (found,) = executable.run(gpu, [x, limit])
        reads = machine.calls.count("cuMemcpyDtoHAsync_v2") - before
        yield transfers.to_host(found), xl.evaluate(module, X + 1, written), reads
    assert machine.calls.count("cuGraphInstantiateWithFlags") == 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("text", [WHILE, NESTED, CHOSEN], ids=["while", "nested", "chosen"])
def test_the_device_decides_in_a_graph(monkeypatch, text, seed):
    for number, (found, wanted, reads) in enumerate(decided(monkeypatch, text, seed, [3, 3, 1, 4, 0])):
        assert bool(reads) == (number == 0)
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_nodes_that_do_not_wait_are_found_by_some_order(monkeypatch):
    captured = ConditionalGraph._captured
    monkeypatch.setattr(ConditionalGraph, "_captured", lambda self, graph, after, give: captured(self, graph, (), give))
    wrong = 0
    for seed in range(4):
        for found, wanted, _ in decided(monkeypatch, CHOSEN, seed, [1, 1, 3, 1]):
            wrong += not np.allclose(found, wanted)
    assert wrong


def test_the_host_decides_for_a_driver_without_conditional_nodes(monkeypatch):
    (gpu,), machine = simulated_gpus()
    functions = {name: f for name, f in gpu.driver.functions.items() if name not in CONDITIONAL_NODES}
    monkeypatch.setattr(gpu.driver, "functions", functions)
    executable = CudaExecutable(xl.parse(WHILE), gpu.target)
    arguments = [transfers.to_device(np.asarray(a, np.float32), gpu) for a in (X + 1, 3)]
    for _ in range(3):
        (found,) = executable.run(gpu, arguments)
        np.testing.assert_allclose(transfers.to_host(found), 2 * (X + 1))
    assert "cuGraphLaunch" not in machine.calls


COUNTED = """HloModule counted
condition { p = (s32[], f32[8,8]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(5) ROOT r = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[8,8]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1)
  j = s32[] add(i, one) v = f32[8,8] get-tuple-element(p), index=1 f = f32[] convert(i)
  g = f32[8,8] broadcast(f), dimensions={} h = f32[8,8] add(v, g)
  w = f32[8,8] dot(h, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[8,8]) tuple(j, w) }
ENTRY e { i = s32[] constant(2) v = f32[8,8] parameter(0) p = (s32[], f32[8,8]) tuple(i, v)
  w = (s32[], f32[8,8]) while(p), condition=condition, body=body ROOT r = f32[8,8] get-tuple-element(w), index=1 }"""


def test_loops_that_count_to_a_constant_are_part_of_a_graph(monkeypatch):
    (gpu,), machine = simulated_gpus()
    executable = CudaExecutable(xl.parse(COUNTED), gpu.target)
    assert not executable.decides
    with gpu:
        same = gpu.memory.allocate(X.nbytes)
    monkeypatch.setattr(executable, "_results", lambda *arguments: [same])
    x, wanted = transfers.to_device(X, gpu), X
    for i in range(2, 5):
        wanted = (wanted + np.float32(i)) @ wanted
    for graphs_launched in (0, 1, 1):
        value, _, kernels, launched_graphs = launched(gpu, machine, executable, x)
        assert launched_graphs == graphs_launched
        np.testing.assert_allclose(value, wanted, rtol=1e-4)
    assert kernels == 0
