"""The device `xla`: factories, transfers, dtypes, errors, copies, files, and what torch.func does."""

import copy
import io
from typing import Any, ClassVar

import pytest
import torch
from torch.utils._pytree import tree_map_only

import xloom.torch as xt
from xloom.torch.lazy.runtime import device_module

DEVICE = torch.device("xla")


def both(function, *tensors):
    """What a function of tensors gives on the CPU, and on the device."""
    return function(*tensors), function(*[t.to(DEVICE) for t in tensors]).cpu()


@pytest.mark.parametrize(
    "make",
    [
        lambda **o: torch.ones(2, 3, **o),
        lambda **o: torch.full((2,), 7, **o),
        lambda **o: torch.arange(1, 9, 2, **o),
        lambda **o: torch.linspace(0, 1, 5, **o),
        lambda **o: torch.eye(3, **o),
        lambda **o: torch.tril_indices(3, 4, 1, **o),
        lambda **o: torch.triu_indices(4, 3, **o),
        lambda **o: torch.tensor([[1.5, 2.0]], **o),
        lambda **o: torch.empty(3, **o).zero_(),
        lambda **o: torch.tril(torch.ones(3, 3, **o)),
    ],
)
def test_factories(make):
    assert make(device=DEVICE).device == torch.device("xla:0")
    torch.testing.assert_close(make(device=DEVICE).cpu(), make())


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float8_e5m2, torch.int64, torch.bool, torch.complex64]
)
def test_transfers_keep_values_strides_and_copies(dtype):
    host = torch.arange(24).reshape(2, 3, 4).to(dtype).transpose(0, 2)
    there = host.to(DEVICE)
    assert there.stride() == host.stride()
    back = there.cpu()
    torch.testing.assert_close(back, host)
    torch.testing.assert_close(there[1:, 0].t().cpu(), host[1:, 0].t())
    host.zero_()
    back.zero_()
    assert there.cpu().tolist() != back.tolist()  # neither shares memory with it


def test_promotion_is_that_of_torch():
    small, whole, scalar = torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.int32), torch.tensor(2.0)
    for function in (lambda a, b, c: a + b, lambda a, b, c: b * 2.5, lambda a, b, c: b + c, lambda a, b, c: b / 3):
        ours, theirs = both(function, small, whole, scalar)
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs)


def test_tensors_of_the_host_are_refused_but_for_scalars():
    there = torch.ones(3, device=DEVICE)
    with pytest.raises(RuntimeError, match=r"same device.*xla:0 and cpu.*move it with"):
        _ = there + torch.ones(3)
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3).add_(there)
    assert (there + torch.tensor(1.0)).sum().item() == 6


def test_masks_and_values_that_decide_shapes():
    x = torch.tensor([3.0, -1.0, 2.0, -5.0])
    for function in (
        lambda t: t[t > 0],
        lambda t: t.nonzero(),
        lambda t: torch.unique(t),
        lambda t: t.masked_fill(t < 0, 0),
        lambda t: t.clone().index_put_((t < 0,), torch.tensor(9.0, device=t.device)),
        lambda t: t[torch.tensor([0, 2])],
    ):
        torch.testing.assert_close(*both(function, x))


@pytest.mark.parametrize(
    "function",
    [
        lambda t: t[t > 3] ** 2,
        lambda t: t[t[:, 0] > 3] ** 2,
        lambda t: t[t > 99] ** 2,
        lambda t: t[:, t[0] > 1] ** 2,
        lambda t: t[t == 4] ** 2,
        lambda t: t.index_put((t > 3,), t[t > 3] ** 2),
        lambda t: t.index_put((t[:, 0] > 3,), t[0] ** 2, accumulate=True),
        lambda t: t.index_put((t > 3,), t[0, 1], accumulate=True),
    ],
)
def test_gradients_of_what_a_mask_takes(function):
    x = torch.arange(12.0).reshape(3, 4)
    torch.testing.assert_close(*both(torch.func.grad(lambda t: function(t).sum()), x))

    def gradient(t):
        t = t.detach().requires_grad_()
        return torch.autograd.grad(function(t).sum(), t)[0]

    torch.testing.assert_close(*both(gradient, x))


def test_printing():
    assert repr(torch.tensor([1.0, 2.0], device=DEVICE)) == "tensor([1., 2.], device='xla:0')"
    text = repr(torch.ones(2, 2, device=DEVICE, requires_grad=True) * 1)
    assert text.splitlines()[1].startswith("        [") and "grad_fn=<MulBackward0>" in text
    loss = torch.tensor(2.5, device=DEVICE, requires_grad=True) * 2
    assert f"{loss:.2f} {loss} {torch.tensor(7, device=DEVICE):03d}" == "5.00 5.0 007"
    assert f"{torch.ones(1, device=DEVICE)}" == "tensor([1.], device='xla:0')"


def test_copies_and_files(tmp_path):
    model = torch.nn.Linear(2, 2).to(DEVICE)
    twin = copy.deepcopy(model)
    assert isinstance(twin.weight, torch.nn.Parameter)
    with torch.no_grad():
        twin.weight.zero_()
    assert model.weight.abs().sum().item() > 0
    torch.save(model.state_dict(), tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt")
    assert loaded["weight"].device == torch.device("xla:0")
    twin.load_state_dict(loaded)
    assert torch.equal(twin.weight, model.weight)
    file = io.BytesIO()
    torch.save(model.weight, file)
    file.seek(0)
    assert torch.load(file, map_location="cpu").device.type == "cpu"


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, torch.bool])
@pytest.mark.parametrize("number", [float("inf"), 1.5, 3, True])
def test_numbers_are_copied_as_tensors_are(dtype, number):
    found = [torch.zeros(2, 3, dtype=dtype, device=device) for device in ("cpu", DEVICE)]
    for x in found:
        x[:, 1].copy_(number)
    assert found[1].cpu().equal(found[0])


@pytest.mark.parametrize("device", ["cpu", DEVICE])
def test_deep_copies_share_memory_as_their_sources_do(device):
    whole = torch.arange(6.0, device=device).reshape(2, 3)
    flat = torch.nn.Parameter(torch.ones(4, device=device))
    flat.sum().backward()
    state = {"whole": whole, "row": whole[1], "t": whole.t(), "wide": whole[:, :1].expand(2, 4), "flat": flat}
    twin = copy.deepcopy({**state, "half": torch.nn.Parameter(flat[:2].detach())})
    twin["row"].zero_()
    twin["half"].data.zero_()
    assert twin["whole"].tolist() == [[0, 1, 2], [0, 0, 0]] and twin["t"].stride() == (1, 3)
    assert twin["wide"].tolist() == [[0] * 4] * 2 and twin["wide"].stride() == (3, 0)
    assert whole.sum().item() == 15
    assert twin["flat"].sum().item() == 4 and twin["flat"].grad is None  # parameters are copied alone


def test_functional_transforms():
    x = torch.randn(4, 3)
    torch.testing.assert_close(*both(torch.func.grad(lambda t: (t**3).sum()), x))
    torch.testing.assert_close(*both(torch.func.vmap(lambda t: t * t.sum()), x))
    torch.testing.assert_close(*both(torch.func.jacrev(torch.sin), x[0]))


def test_random_numbers_follow_the_seed():
    torch.manual_seed(3)
    first = torch.rand(5, device=DEVICE)
    second = torch.randn(5, device=DEVICE)
    state = torch.xla.get_rng_state()  # type: ignore[attr-defined]
    third = torch.rand(5, device=DEVICE)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(5, device=DEVICE), first) and torch.equal(torch.randn(5, device=DEVICE), second)
    torch.xla.set_rng_state(state)  # type: ignore[attr-defined]
    assert torch.equal(torch.rand(5, device=DEVICE), third) and not torch.equal(first, third)
    kept = torch.nn.functional.dropout(torch.ones(1000, device=DEVICE), 0.25)
    assert 650 < int((kept > 0).sum()) < 850


def test_autocast():
    layer, x = torch.nn.Linear(3, 3).to(DEVICE), torch.ones(2, 3, device=DEVICE)
    with torch.autocast("xla", dtype=torch.bfloat16):
        product = layer(x)
        assert product.dtype == torch.bfloat16 and torch.softmax(product, -1).dtype == torch.float32
    product.sum().backward()
    assert layer.weight.grad is not None and layer.weight.grad.dtype == torch.float32


def test_models_move_and_convert():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).to(DEVICE)
    assert all(p.device.type == "xla" and isinstance(p, torch.nn.Parameter) for p in model.parameters())
    model.double()
    assert model[0].weight.dtype == torch.float64
    assert model.cpu()[0].weight.device.type == "cpu"


def test_parameters_stay_shared_when_a_model_moves():
    embedding, output = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5, bias=False)
    output.weight = embedding.weight
    model = torch.nn.Sequential(embedding, torch.nn.ReLU(), output)
    numbers = torch.tensor([1, 3])
    model(numbers).sum().backward()
    want = embedding.weight.grad
    model.zero_grad()
    for device in ("xla", "cpu", "xla"):
        model.to(device)
        assert output.weight is embedding.weight and len(list(model.parameters())) == 1
    model(numbers.to("xla")).sum().backward()
    assert embedding.weight.grad is not None
    torch.testing.assert_close(embedding.weight.grad.cpu(), want)


def test_errors_of_a_backward_step_are_raised():
    class Refuses(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad + torch.ones(3)  # a tensor of the host

    x = torch.ones(3, device=DEVICE, requires_grad=True)
    with pytest.raises(RuntimeError, match="same device"):
        Refuses.apply(x).sum().backward()
    (x * 2).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 2, 2]


def test_an_operator_without_lowering_says_what_to_do(monkeypatch):
    with torch.library._scoped_library("xloom_tests", "FRAGMENT") as library:
        library.define("on_the_cpu(Tensor x) -> Tensor")
        library.impl("on_the_cpu", lambda x: x * x, "CPU")
        _without_lowering_says_what_to_do(torch.ops.xloom_tests.on_the_cpu, monkeypatch)


def _without_lowering_says_what_to_do(operator, monkeypatch):
    x = torch.ones(3, device=DEVICE)
    monkeypatch.delenv("XLOOM_TORCH_FALLBACK", raising=False)
    with pytest.raises(Exception, match=r"no lowering[\s\S]*XLOOM_TORCH_FALLBACK=1"):
        operator(x)
    monkeypatch.setenv("XLOOM_TORCH_FALLBACK", "1")
    xt.metrics.clear()
    assert operator(x).device.type == "xla"
    assert xt.metrics.METRICS.fallbacks == {"xloom_tests.on_the_cpu.default": 1}
    assert "xloom_tests.on_the_cpu.default: 1" in xt.metrics_report()


def test_methods_that_move_things_there():
    tensor: Any = torch.ones(2)
    module: Any = torch.nn.Linear(2, 3)
    packed: Any = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    assert tensor.xla().device == tensor.xla(0).device == torch.device("xla", 0)
    assert module.xla().weight.is_xla
    assert packed.xla().data.is_xla


def test_the_device_has_a_name():
    assert device_module.get_device_name() == device_module.get_device_name("xla:0") == "cpu"


def test_the_default_dtype_decides_at_each_call():
    x = torch.arange(3, device=DEVICE)
    assert (x / 2).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert (x / 2).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert (x / 2).dtype is torch.float32


def test_numbers_of_the_device_make_a_tensor():
    one = torch.tensor(3, device=DEVICE)
    assert torch.tensor([one, 4], device=DEVICE).tolist() == torch.tensor([one, 4]).tolist() == [3, 4]


def test_a_gradient_scaler_backs_off_and_grows():
    found = []
    for device in ("cpu", DEVICE):
        weight = torch.nn.Parameter(torch.ones(3, device=device))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        scaler = torch.amp.GradScaler(str(device), init_scale=4.0, growth_interval=2)
        for factor in (1.0, float("inf"), 2.0, 3.0):
            optimizer.zero_grad()
            scaler.scale((weight * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        found.append((weight.tolist(), scaler.get_scale()))
    assert found[1] == found[0]
    assert found[0][1] == 4.0


def test_a_generator_of_the_host_seeds_what_it_is_given_to():
    def draw(seed):
        generator = torch.Generator().manual_seed(seed)
        return [torch.randn(3, device=DEVICE, generator=generator).tolist() for _ in range(2)]

    assert draw(1) == draw(1) != draw(2)
    assert draw(1)[0] != draw(1)[1]
    torch.manual_seed(0)
    alone = torch.rand(3, device=DEVICE).tolist()
    torch.manual_seed(0)
    draw(1)
    assert torch.rand(3, device=DEVICE).tolist() == alone


def test_resizing_to_a_memory_format():
    x = torch.arange(6.0, device=DEVICE)
    x.resize_(1, 3, 1, 2, memory_format=torch.channels_last)
    assert x.stride() == (6, 1, 6, 3)
    assert x.flatten().tolist() == [0, 3, 1, 4, 2, 5]


def test_other_classes_of_tensors_may_hold_tensors_of_the_device():
    class Wrapped(torch.Tensor):
        inner: torch.Tensor
        calls: ClassVar[list[str]] = []

        @staticmethod
        def __new__(cls, inner):
            wrapped = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
                cls, inner.shape, dtype=inner.dtype, device=inner.device
            )
            wrapped.inner = inner
            return wrapped

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(str(func))
            return func(*tree_map_only(cls, lambda t: t.inner, args), **(kwargs or {}))

    plain = torch.ones(2, device="xla")
    assert (plain + Wrapped(plain)).tolist() == [2, 2]  # it is asked, though it comes second
    assert Wrapped.calls == ["aten.add.Tensor"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool])
def test_tensors_that_were_transferred_can_grow(dtype):
    given = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]).to(dtype).t()
    found = given.to("xla").cpu()
    assert torch.equal(found, given)
    for tensor in (given, found, given.to("xla")[1:].cpu()):
        assert tensor.resize_(4, 4).shape == (4, 4)


def test_streams_of_torch_do_not_wait_for_events():
    device = torch.get_device_module("xla")
    event = device.Event(enable_timing=True)
    assert event.record() is event
    torch.accelerator.current_stream().wait_event(event)
    device.current_stream().wait_event(event)
    assert event.query()
    assert isinstance(device.Stream().record_event(), torch.Event)
