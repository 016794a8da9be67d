"""What programs around a model ask for: loaders that pin memory, files, numbers of devices, modes, sparse tensors."""

import copy
import io
import pickle
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import xloom.torch  # noqa: F401 - it registers the device
from xloom.errors import LoweringError

DEVICE = getattr(torch, "xla")  # noqa: B009 - made at run time


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


def test_options_of_inductor_are_ignored_with_a_warning():
    compiled = torch.compile(doubled, backend="xloom", options={"max_autotune": True, "triton.cudagraphs": False})
    with pytest.warns(UserWarning, match="mean nothing to xloom: max_autotune, triton.cudagraphs"):
        assert torch.equal(compiled(torch.arange(3.0)), 2 * torch.arange(3.0))


def test_generators_of_the_device():
    generator = torch.Generator(device="xla").manual_seed(3)
    assert isinstance(generator, torch.Generator) and isinstance(torch.Generator(), torch.Generator)
    assert (generator.device, torch.Generator().device) == (torch.device("xla", 0), torch.device("cpu"))
    restored = pickle.loads(pickle.dumps(generator))
    first = torch.randn(3, generator=generator, device="xla")
    assert torch.equal(first, torch.randn(3, generator=restored, device="xla"))
    assert not torch.equal(first, torch.randn(3, generator=generator, device="xla"))
    with pytest.raises(RuntimeError, match="no xla:7"):
        torch.Generator("xla:7")


def test_sparse_tensors_have_a_clear_word():
    with pytest.raises(LoweringError, match="HLO has no sparse tensors"):
        torch.ones(2, 2, device="xla").to_sparse()


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], (2, 2), device="xla"),
        lambda: torch.ones(2, 2).to_sparse_csr().to("xla"),
        lambda: torch.ones(2, 2).to_sparse().to("xla"),
        lambda: torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.qint8).to("xla"),
    ],
)
@pytest.mark.filterwarnings("ignore:(Sparse|.*quantize):UserWarning")
def test_tensors_of_other_layouts_do_not_go_there(make):
    with pytest.raises(LoweringError, match=r"HLO has no (sparse|quantized) tensors"):
        make()


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_drops_out_the_same_again(reentrant):
    x = torch.ones(1000, device="xla", requires_grad=True)
    y = checkpoint(lambda x: torch.nn.functional.dropout(x * 2), x, use_reentrant=reentrant)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("saved_on", ["cpu", "xla"])
def test_files_are_loaded_to_the_device(tmp_path, saved_on, mmap):
    matrix = torch.arange(12.0).reshape(3, 4)
    wanted = {"matrix": matrix, "view": matrix[1:, ::2], "half": matrix.bfloat16(), "none": torch.empty(0)}
    saved = {name: tensor.to(saved_on) for name, tensor in wanted.items()}
    torch.save({**saved, "view": saved["matrix"][1:, ::2]}, tmp_path / "file")
    loaded = torch.load(tmp_path / "file", map_location="xla", mmap=mmap)
    for name, tensor in wanted.items():
        assert loaded[name].device == torch.device("xla", 0)
        assert loaded[name].cpu().equal(tensor) and loaded[name].stride() == tensor.stride()
    loaded["view"].zero_()
    assert loaded["matrix"].sum() == 66 - 4 - 6 - 8 - 10
    with pytest.raises(RuntimeError, match="XLA device 7"):
        torch.load(tmp_path / "file", map_location="xla:7")
    torch.serialization._serialization_tls.map_location = None  # torch leaves it as it was where loading fails


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("saved_on", ["cpu", "xla"])
def test_files_tie_what_was_tied(saved_on, zipped):
    layer = torch.nn.Linear(3, 3).to(saved_on)
    tied = {**layer.state_dict(), "t": layer.weight.detach().t(), "conj": torch.ones(2, device=saved_on).mul(1j).conj()}
    file = io.BytesIO()
    torch.save({**tied, "again": layer.weight}, file, _use_new_zipfile_serialization=zipped)
    for place in (None, "cpu"):
        file.seek(0)
        loaded = torch.load(file, map_location=place)
        assert {t.device.type for t in loaded.values()} == {place or saved_on}
        assert torch.equal(loaded["again"].cpu(), layer.weight.cpu()) and loaded["t"].stride() == (1, 3)
        assert loaded["conj"].tolist() == [-1j, -1j]
        loaded["weight"].zero_()
        assert loaded["again"].abs().sum() == loaded["t"].abs().sum() == 0


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("device", ["cpu", "xla"])
def test_storages_are_read_and_written(device):
    x = torch.arange(4.0, device=device).reshape(2, 2).t()
    memory: Any = x.untyped_storage()
    assert x.storage().tolist() == pickle.loads(pickle.dumps(x.storage())).tolist() == [0, 1, 2, 3]
    twin = copy.deepcopy(memory)
    assert memory.to(device="cpu").tolist() == torch.UntypedStorage(16).copy_(memory).tolist() == memory.tolist()
    assert not memory.is_pinned()
    memory.copy_(torch.arange(4.0, 8.0).untyped_storage())
    assert x.tolist() == [[4, 6], [5, 7]] and twin.cpu().tolist()[6:8] == [0x80, 0x3F]
    memory[3] = 0xC0
    assert x.tolist() == [[-4, 6], [5, 7]]
    assert memory.fill_(0)[7] == 0 and x.abs().sum() == 0


def test_memory_is_counted():
    before = DEVICE.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    x = torch.ones(1 << 16, device="xla") * 2
    assert torch.accelerator.memory_allocated() == before + (4 << 16)
    del x
    assert DEVICE.memory_allocated() == torch.accelerator.memory_reserved() == before
    assert DEVICE.max_memory_allocated() == before + (4 << 16)
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free < total == DEVICE.get_device_properties().total_memory


def test_the_accelerator_is_the_device():
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()
    torch.accelerator.set_device_index(0)
    assert torch.accelerator.device_count() == 1
    assert torch.bfloat16 in torch.accelerator.get_device_capability()["supported_dtypes"]
    with pytest.raises(RuntimeError, match="no xla:7"):
        torch.accelerator.set_device_index(7)


def test_random_states_are_kept():
    with torch.random.fork_rng(devices=[0], device_type="xla"):
        first = torch.rand(3, device="xla").tolist()
    state = DEVICE.get_rng_state_all()
    assert torch.rand(3, device="xla").tolist() == first
    DEVICE.set_rng_state_all(state)
    assert torch.rand(3, device="xla").tolist() == first


def test_pickled_parameters_are_parameters():
    layer = torch.nn.Linear(2, 3).to("xla")
    layer.bias.requires_grad_(False)
    restored = pickle.loads(pickle.dumps(layer))
    assert [type(p) for p in restored.parameters()] == [type(p) for p in layer.parameters()]
    assert [isinstance(p, torch.nn.Parameter) for p in restored.parameters()] == [True, True]
    assert [p.requires_grad for p in restored.parameters()] == [True, False]
    assert torch.equal(restored.weight, layer.weight)


def test_tensors_go_to_other_processes():
    x = torch.arange(6.0, device="xla").reshape(2, 3).t()
    sent = ForkingPickler.dumps([x, torch.nn.Parameter(x), x[1]])
    received = pickle.loads(sent)
    assert [each.tolist() for each in received] == [x.tolist(), x.tolist(), x[1].tolist()]
    assert received[0].device.type == "xla" and received[0].stride() == (1, 3)


def test_data_parallel_is_the_module_itself():
    layer = torch.nn.Linear(2, 3).to("xla")
    x = torch.ones(4, 2)
    assert torch.equal(torch.nn.DataParallel(layer)(x), layer(x.to("xla")))


def test_numbers_in_vmap():
    x = torch.arange(3.0)
    compiled = torch.compile(torch.func.vmap(lambda a: a.sin() * 2), backend="xloom")
    torch.testing.assert_close(compiled(x), x.sin() * 2)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_memory_is_made_of_a_number_of_bytes_or_of_these():
    """torch's own constructor ended the process."""
    assert torch.UntypedStorage(12, device="xla").nbytes() == 12
    assert torch.TypedStorage(3, dtype=torch.float32, device="xla").nbytes() == 12
    memory = torch.UntypedStorage([1, 0, 0, 0, 2, 0, 0, 0], device="xla")
    assert memory.device == torch.device("xla:0")
    numbers = torch.empty(0, dtype=torch.int32, device="xla").set_(memory, 0, (2,), (1,))
    assert numbers.tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="xla:7"):
        torch.UntypedStorage(12, device="xla:7")
    assert torch.UntypedStorage(12).device.type == torch.UntypedStorage(12, device="cpu").device.type == "cpu"
