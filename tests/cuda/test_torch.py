"""Graphs of torch's on a GPU: torch's tensors of the host stand for a GPU's, whose memory a simulated driver lends."""

from typing import Any

import pytest
import torch

from tests.cuda.simulation import simulated_gpus
from xloom.cuda.driver.entry_points import NON_BLOCKING
from xloom.errors import UnsupportedError
from xloom.torch import graph_on_gpu
from xloom.torch.compile_backend import compile_graph


@pytest.fixture
def gpu(monkeypatch):
    """A GPU, with a stream of torch's, and memory that both know."""
    (gpu,), machine = simulated_gpus()
    with gpu:
        stream = gpu.driver.made("cuStreamCreate", NON_BLOCKING)
    made = []

    def lent(*arguments, **options):
        with gpu:
            block = gpu.memory.allocate(1 << 14)
        made.append(block)
        gpu.synchronize()
        memory = machine.memory.part(block.pointer, 1 << 14)
        dims, dtype, _ = arguments
        return torch.from_numpy(memory).view(dtype)[: torch.Size(dims).numel()].view(dims)

    monkeypatch.setattr(graph_on_gpu, "_gpu", lambda ordinal: gpu)
    monkeypatch.setattr(graph_on_gpu, "current_stream", lambda device: stream)
    monkeypatch.setattr(graph_on_gpu, "empty", lent)
    monkeypatch.setattr("xloom.torch.compile_backend.device_of", lambda arguments: torch.device("cpu"))
    given: Any = gpu
    given.torch_stream, given.lent, given.machine = stream, lent, machine
    return given


def graph_of(function, *examples):
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function)(*examples)


def wait(gpu):
    """For torch's stream, which waits for the program."""
    gpu.driver.functions["cuCtxPushCurrent_v2"](gpu.context)
    gpu.driver.call("cuStreamSynchronize", gpu.torch_stream)
    gpu.driver.functions["cuCtxPopCurrent_v2"](None)


def test_tensors_are_read_and_written_where_they_are(gpu):
    x, y = (gpu.lent((8, 4), torch.float32, None) for _ in range(2))
    x.copy_(torch.randn(8, 4))
    y.copy_(torch.randn(8, 4))

    def f(x, y):
        return [torch.tanh(x) + y, x @ y.t()]

    compiled = compile_graph(graph_of(f, x, y), [x, y])
    copies = gpu.machine.calls.count("cuMemcpyHtoDAsync_v2")
    first, second = compiled([x, y])
    copied = gpu.machine.calls.count("cuMemcpyHtoDAsync_v2") - copies
    assert copied <= 1  # of constants, the first time
    wait(gpu)
    torch.testing.assert_close(first, torch.tanh(x) + y)
    torch.testing.assert_close(second, x @ y.t())


def test_tensors_that_begin_within_others_are_aligned(gpu):
    whole = gpu.lent((33, 64), torch.float32, None).flatten()
    whole.copy_(torch.randn(33 * 64))
    x = whole[1 : 32 * 64 + 1]
    (found,) = compile_graph(graph_of(lambda x: [x + 1], x), [x])([x])
    wait(gpu)
    torch.testing.assert_close(found, x + 1)


def test_the_host_factors_matrices(gpu):
    x = gpu.lent((4, 4), torch.float32, None)
    x.copy_(torch.randn(4, 4) + 4 * torch.eye(4))
    (found,) = compile_graph(graph_of(lambda x: [torch.linalg.inv(x)], x), [x])([x])
    wait(gpu)
    torch.testing.assert_close(found, torch.linalg.inv(x))


def test_dynamic_shapes_and_several_gpus_are_refused():
    class Tensor(torch.Tensor):
        device = None  # type: ignore[assignment]

    found = []
    for number in range(2):
        tensor = torch.empty(0).as_subclass(Tensor)
        tensor.device = torch.device("cuda", number)
        found.append(tensor)
    assert graph_on_gpu.device_of([found[0], 3]) == torch.device("cuda", 0)
    assert graph_on_gpu.device_of([torch.empty(2)]) is None
    with pytest.raises(UnsupportedError, match=r"a graph has tensors of cuda:0, cuda:1"):
        graph_on_gpu.device_of(found)
