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


def factored(gpu, function, *tensors):
    """What a function of tensors gives on the GPU, and how often the host had copies of arrays."""
    given = [gpu.lent(tuple(t.shape), t.dtype, None).copy_(t) for t in tensors]
    before = gpu.machine.calls.count("cuMemcpyDtoHAsync_v2")
    found = compile_graph(graph_of(function, *tensors), given)(given)
    wait(gpu)
    return found, gpu.machine.calls.count("cuMemcpyDtoHAsync_v2") - before


def test_the_host_factors_what_has_no_kernels(gpu):
    x = torch.randn(4, 4)
    x = x + x.T  # whose eigenvalues are real
    (found,), copies = factored(gpu, lambda x: [torch.linalg.eigvals(x).real.sum()], x)
    torch.testing.assert_close(found, x.trace(), rtol=1e-4, atol=1e-4)
    assert copies


def spectrum(parts):
    """What does not depend on the signs of vectors."""
    left, values, right = parts
    return [values, (left * values.unsqueeze(-2).to(left.dtype)) @ right]


def lu_solved(x, right, **how):
    """By factors."""
    return torch.linalg.lu_solve(*torch.linalg.lu_factor(x), right, **how)


def reflected(x, left, transpose):
    """A matrix times the reflections of another one's columns."""
    vectors, taus = torch.geqrf(x[..., :3])
    return torch.ormqr(vectors, taus, x[..., :2] if left else x[:, :2], left, transpose)


def symmetric(x, *, hermitian):
    """Factors of symmetric matrices, whose diagonals are so small that there are pivots of two rows, and systems."""
    a = x + (x.mH if hermitian else x.mT)
    a = a - 0.9 * torch.diag_embed(torch.diagonal(a, dim1=-2, dim2=-1))
    factors, pivots = torch.linalg.ldl_factor(a, hermitian=hermitian)
    return [factors, pivots, torch.linalg.ldl_solve(factors, pivots, x[..., :3], hermitian=hermitian)]


FACTORISATIONS = {
    "qr": lambda x: [*torch.linalg.qr(x)],
    "qr, complete": lambda x: [*torch.linalg.qr(x[:, :3], mode="complete")],
    "qr, wide": lambda x: [*torch.linalg.qr(x[:, :3].mT, mode="complete")],
    "qr, r": lambda x: [torch.linalg.qr(x, mode="r")[1]],
    "reflections": lambda x: [torch.linalg.householder_product(*torch.geqrf(x[:, :, :3]))],
    "eigh": lambda x: spectrum((lambda v, w: (w, v, w.mH))(*torch.linalg.eigh(x + x.mH))),
    "eigvalsh": lambda x: [torch.linalg.eigvalsh(x + x.mH, UPLO="U")],
    "svd": lambda x: spectrum(torch.linalg.svd(x[:, :3], full_matrices=False)),
    "svd, full": lambda x: [*spectrum((lambda u, s, v: (u, s, v[:, :3]))(*torch.linalg.svd(x[:, :3])))],
    "svd, all vectors": lambda x: [(lambda v: v @ v.mH)(torch.linalg.svd(x[:, :3])[2])],
    "svdvals": lambda x: [torch.linalg.svdvals(x)],
    "lu": lambda x: [*torch.linalg.lu_factor(x[:, :3])],
    "inv": lambda x: [torch.linalg.inv(x)],
    "det": lambda x: [torch.linalg.det(x), torch.ops.aten._linalg_det(x)[1]],
    "det of columns": lambda x: [torch.linalg.det(x.mT)],
    "slogdet": lambda x: [*torch.linalg.slogdet(x)],
    "solve": lambda x: [torch.linalg.solve(x, x[:, :, :2]), torch.linalg.solve(x, x[..., 0])],
    "solve, right": lambda x: [torch.linalg.solve(x, x[:, :2], left=False)],
    "lu, P L U": lambda x: [*torch.linalg.lu(x[:, :3]), *torch.linalg.lu(x[..., :3])],
    "lu, unpacked": lambda x: [*torch.lu_unpack(*torch.linalg.lu_factor(x[:, :3]))],
    "lu, solved": lambda x: [lu_solved(x, x[0, :, :2], left=True, adjoint=a) for a in (False, True)],
    "lu, solved right": lambda x: [lu_solved(x, x[:, :2], left=False, adjoint=a) for a in (False, True)],
    "ldl": lambda x: symmetric(x, hermitian=False),
    "ldl, hermitian": lambda x: symmetric(x, hermitian=True),
    "products with reflections": lambda x: [reflected(x, left, t) for left in (True, False) for t in (True, False)],
    "least squares": lambda x: [*torch.linalg.lstsq(x[..., :2], x[..., 2:], driver="gelsd")],
    "least squares, wide": lambda x: [*torch.linalg.lstsq(x[:, :3], x[:, :3, 0])],
    "least squares, of full rank": lambda x: [*torch.linalg.lstsq(x[..., :2], x, driver="gels")],
    "least squares, of lower rank": lambda x: [*torch.linalg.lstsq(x[..., :1] * x[:, :1, :3], x)],
    "solve, factors": lambda x: [*torch.ops.aten._linalg_solve_ex(x, x[..., :2])],
    "solve, right, factors": lambda x: [*torch.ops.aten._linalg_solve_ex(x, x[:, :2], left=False)],
    "solve, columns": lambda x: [*torch.ops.aten._linalg_solve_ex(x.mT.contiguous().mT, x)],
}


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("name", FACTORISATIONS)
def test_matrices_are_factored_on_the_device(gpu, name, dtype):
    x = torch.randn(2, 5, 5, dtype=dtype, generator=torch.Generator().manual_seed(0))
    found, copies = factored(gpu, FACTORISATIONS[name], x)
    assert not copies
    for value, wanted in zip(found, FACTORISATIONS[name](x), strict=True):
        torch.testing.assert_close(value, wanted, rtol=1e-4, atol=1e-4)


def test_each_shape_has_a_program(gpu):
    def f(x):
        return torch.tanh(x).sum(0) * x.shape[0]

    compiled = torch.compile(f, backend="xloom", dynamic=True)
    for rows in (3, 5, 8, 3, 11):
        x = gpu.lent((rows, 4), torch.float32, None).copy_(torch.randn(rows, 4))
        launched = gpu.machine.calls.count("cuLaunchKernel")
        found = compiled(x)
        wait(gpu)
        torch.testing.assert_close(found, f(x))
        assert gpu.machine.calls.count("cuLaunchKernel") > launched


def test_tensors_of_several_gpus_are_refused():
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
