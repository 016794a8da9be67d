"""PyTorch's device `xla` as a backend of one's own, in a process of its own: `backend_programs.py NAME`."""

import copy
import os
import sys

import torch

import xloom as xl
import xloom.torch as xt
from xloom.pjrt import Client
from xloom.sim import Simulator
from xloom.torch.lazy.runtime import device_client


class Small(Simulator):
    platform = "small"
    memory_bytes = 1 << 20


def simulated():
    client = Client.sim(Small)
    xt.use_backend(client)
    (device,) = client.compiler.simulators  # type: ignore[attr-defined]
    assert torch.xla.get_device_name() == "small"  # type: ignore[attr-defined]
    x = torch.arange(24.0).view(4, 6)
    mine = x.to("xla")
    xt.sync()
    assert device.memory.statistics()["bytes_in_use"] >= x.nbytes
    assert torch.equal((mine @ mine.t()).cpu(), x @ x.t())
    assert mine.sum().item() == x.sum()
    assert mine[1:3, ::2].tolist() == x[1:3, ::2].tolist()
    mine[2].add_(2.5)
    assert mine[2].tolist() == (x[2] + 2.5).tolist()
    torch.manual_seed(3)
    drawn = torch.randn(50, device="xla").cpu()
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.randn(50, device="xla").cpu()) and drawn.std() > 0.5
    model = torch.nn.Linear(6, 2).to("xla")
    compiled = torch.compile(model, backend="xloom")
    assert torch.allclose(compiled(mine).cpu(), model(mine).cpu(), rtol=1e-5)
    weights = torch.zeros(200, 100, device="xla")  # updated in place, which this memory cannot be
    for _ in range(3):
        weights.add_(1)
        xt.sync()
    assert weights.cpu().unique().tolist() == [3]
    try:
        torch.ones(1 << 18, device="xla").cpu()
    except xl.XloomError as error:
        assert "out of device memory" in str(error), error
    else:
        raise AssertionError("1 MiB is full")
    assert torch.equal((x.to("xla") + 1).cpu(), x + 1)
    try:
        xt.use_backend(Client.sim(Small))
    except xl.UnsupportedError as error:
        assert "in use already" in str(error)
    else:
        raise AssertionError("tensors have changed places")


def gpu():
    from tests.cuda.simulation import simulated_gpus
    from xloom.pjrt import cuda

    found, machine = simulated_gpus()
    cuda.gpus = lambda count=None: found
    os.environ["PJRT_DEVICE"] = "CUDA"
    assert device_client.hardware() == "CUDA"
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    )
    mine = copy.deepcopy(model).to("xla")
    x, y = torch.randn(8, 16), torch.arange(8) % 4
    for net, device in ((model, "cpu"), (mine, "xla")):
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x.to(device)), y.to(device)).backward()
            optimizer.step()
    for found, wanted in zip(mine.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(found.detach().cpu(), wanted.detach(), rtol=1e-4, atol=1e-4)
    assert "cuLaunchKernel" in machine.calls

    def slope(device):
        a = (x[:, :8] + 4 * torch.eye(8)).to(device).requires_grad_()
        solution = torch.linalg.solve_ex(a, x.to(device)).result
        return torch.autograd.grad(solution.square().sum(), a)[0]

    copies = machine.calls.count("cuMemcpyDtoHAsync_v2")
    mine = slope("xla")
    xt.sync(wait=True)
    assert machine.calls.count("cuMemcpyDtoHAsync_v2") == copies  # the host factors nothing
    torch.testing.assert_close(mine.cpu(), slope("cpu"), rtol=1e-3, atol=1e-4)
    weights = torch.zeros(200, 100, device="xla")
    for _ in range(3):
        weights[:, 3:].add_(1)
        xt.sync()
    assert weights.cpu().sum() == 3 * 200 * 97
    assert "donated: 2" in xt.metrics_report()


def no_gpu():
    os.environ["PJRT_DEVICE"] = "CUDA"
    try:
        torch.ones(2, device="xla").cpu()
    except xl.UnsupportedError as error:
        assert "libcuda.so.1" in str(error), error


if __name__ == "__main__":
    globals()[sys.argv[1]]()
