"""PyTorch's device `xla` as a backend of one's own, in a process of its own: `backend_programs.py NAME`."""

import sys

import torch

import xloom as xl
import xloom.torch as xt
from xloom.pjrt import Client
from xloom.sim import Simulator


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


if __name__ == "__main__":
    globals()[sys.argv[1]]()
