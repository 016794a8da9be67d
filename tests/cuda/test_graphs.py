"""Programs that run again on the same arrays are CUDA graphs. On a simulated driver."""

import numpy as np
import pytest

import xloom as xl
from tests.cuda.simulation import simulated_gpus
from xloom.cuda.program import Launch
from xloom.cuda.run_time import graphs, transfers
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
    assert (executable.tape.rows_given or 0) >= graphs.FEWEST
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
