"""What programs around a model ask for: loaders that pin memory, numbers of devices, modes, sparse tensors."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import xloom.torch  # noqa: F401 - it registers the device
from xloom.errors import LoweringError


def doubled(x):
    return x * 2


@pytest.mark.filterwarnings("ignore:os.fork.* was called:RuntimeWarning")  # where JAX is in the process too
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_pins_memory(workers):
    data = TensorDataset(torch.arange(6.0).reshape(6, 1))
    loader = DataLoader(data, batch_size=2, pin_memory=True, num_workers=workers)
    batches = [(doubled(x), doubled(x.to("xla", non_blocking=True)).cpu()) for (x,) in loader]
    assert torch.equal(torch.cat([host for host, _ in batches]), 2 * torch.arange(6.0).reshape(6, 1))
    assert all(torch.equal(host, device) for host, device in batches)


def test_memory_is_pinned_under_gradients():
    x = torch.ones(3, requires_grad=True)
    doubled(x.pin_memory()).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0] * 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(3, device="xla:7"),
        lambda: torch.empty_strided((2, 3), (1, 2), device="xla:7"),
        lambda: torch.ones(3).to("xla:7"),
        lambda: torch.ones(3, device="xla").to("xla:7"),
        lambda: torch.tensor([1.0], device="xla:7"),
        lambda: torch.nn.Linear(2, 2).to("xla:7"),
        lambda: torch.empty_like(torch.ones(3, device="xla"), device="xla:7"),
        lambda: torch.ones(3, device="xla").new_empty(3, device="xla:7"),
        lambda: torch.get_device_module("xla").set_device(7),
    ],
)
def test_there_is_no_eighth_device(make):
    with pytest.raises(RuntimeError, match="no xla:7"):
        make()


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes_of_torch_compile(mode):
    x = torch.arange(3.0)
    assert torch.equal(torch.compile(doubled, backend="xloom", mode=mode, fullgraph=True)(x), 2 * x)


def test_a_mode_that_there_is_not():
    with pytest.raises(Exception, match=r"no mode 'fast'.*reduce-overhead"):
        torch.compile(doubled, backend="xloom", mode="fast")(torch.arange(3.0))


def test_sparse_tensors_have_a_clear_word():
    with pytest.raises(LoweringError, match="HLO has no sparse tensors"):
        torch.ones(2, 2, device="xla").to_sparse()
