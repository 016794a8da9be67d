"""Inference keeps what is computed of weights alone, and only for as long as they are what they were."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import xloom as xl
from xloom.llvm.target import process_target
from xloom.torch import compile_backend
from xloom.torch.ahead import export
from xloom.torch.frozen.division import divided
from xloom.torch.frozen.filter_lines import put_in_lines
from xloom.torch.frozen.kept_values import KeptValues
from xloom.torch.frozen.narrow_weights import widen_last
from xloom.torch.frozen.weight_panels import put_weights_in_panels


def network(channels: int = 8) -> Any:
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, groups=channels, bias=False),
        nn.BatchNorm2d(channels),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, 5),
    )
    for norm in (layers[1], layers[4]):
        assert isinstance(norm, nn.BatchNorm2d) and norm.running_mean is not None and norm.running_var is not None
        norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2)
    return layers.eval()


def images() -> torch.Tensor:
    return torch.randn(2, 3, 9, 11, generator=torch.Generator().manual_seed(1))


def agrees(compiled, model: nn.Module, x: torch.Tensor, **tolerance) -> None:
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), **(tolerance or {"rtol": 1e-4, "atol": 1e-5}))


@pytest.fixture
def computations(monkeypatch) -> list[int]:
    """How many weights were gone through, each time that something was computed of them."""
    found: list[int] = []

    class Counting(KeptValues):
        def __init__(self, compute, alike):
            super().__init__(lambda weights: (found.append(len(weights)), compute(weights))[1], alike)

    monkeypatch.setattr("xloom.torch.compiled_graph.KeptValues", Counting)
    return found


@pytest.fixture(autouse=True)
def _afresh():
    torch._dynamo.reset()


def test_weights_are_gone_through_once(computations):
    model, x = network(), images()
    compiled = torch.compile(model, backend="xloom")
    for _ in range(3):
        agrees(compiled, model, x)
    assert len(computations) == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_programs_of_other_shapes_have_the_same_values(computations, dynamic):
    model, x = network(), images()
    compiled = torch.compile(model, backend="xloom", dynamic=dynamic)
    for size in (9, 10, 11):
        agrees(compiled, model, x[:, :, :, :size])
    assert len(computations) == 1


@torch.no_grad()
def _scaled(model):
    model[0].weight.mul_(3)


@torch.no_grad()
def _statistics(model):
    model[1].running_var.mul_(2)


@torch.no_grad()
def _view(model):
    model[3].weight[1:3].zero_()


def _optimizer(model):
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    torch.optim.SGD(model.parameters(), 0.1).step()


def _loaded(model):
    model.load_state_dict({k: v * 2 for k, v in model.state_dict().items()})


def _past_torch(model):
    for p in model.parameters():
        p.data.mul_(0.9).add_(0.01)


def _by_numpy(model):
    model[8].weight.detach().numpy()[...] *= 2


def _other_memory(model):
    model[0].weight.data = model[0].weight.data * 2


def _other_parameter(model):
    model[0].weight = nn.Parameter(model[0].weight.detach() * 2)


@pytest.mark.parametrize(
    "change",
    [_scaled, _statistics, _view, _optimizer, _loaded, _past_torch, _by_numpy, _other_memory, _other_parameter],
)
def test_changed_weights_count(change):
    model, x = network(), images()
    compiled = torch.compile(model, backend="xloom")
    agrees(compiled, model, x)
    with torch.no_grad():
        before = compiled(x)
    change(model)
    agrees(compiled, model, x)
    with torch.no_grad():
        assert not torch.equal(before, compiled(x))


def test_memory_that_is_used_again_is_another_weight():
    model, x = network(), images()
    compiled = torch.compile(model, backend="xloom")
    for k in range(4):  # an allocator gives the same memory again where nobody has it
        model[0].weight.data = torch.full_like(model[0].weight, k / 10)
        agrees(compiled, model, x)


def test_two_models_of_one_class_have_their_own_weights():
    model, x = network(), images()
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[0].weight.mul_(2)
    for each in (model, other, model, other):
        agrees(torch.compile(each, backend="xloom"), each, x)


def test_training_is_as_it_was():
    model, x = network(), images()
    compiled = torch.compile(model, backend="xloom")
    agrees(compiled, model, x)
    model.train()
    expected = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (model, expected)]
    for _ in range(2):
        for run, optimizer in zip((compiled, expected), optimizers, strict=True):
            optimizer.zero_grad()
            run(x).square().sum().backward()
            optimizer.step()
    for a, b in zip(model.state_dict().values(), expected.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    agrees(compiled, model.eval(), x)


def test_shared_parameters_and_views_of_them():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(6, 6, 3, 3) / 6)
            self.scale = nn.Parameter(torch.rand(12))

        def forward(self, x):
            y = torch.conv2d(x, self.weight, padding=1) * self.scale[:6, None, None]
            y = torch.conv2d(y, self.weight.transpose(0, 1), padding=1) * self.scale.view(2, 6)[1].view(-1, 1, 1)
            return y, self.weight

    torch.manual_seed(0)
    model, x = Tied(), torch.randn(2, 6, 5, 7)
    compiled = torch.compile(model, backend="xloom")
    for _ in range(2):
        with torch.no_grad():
            (a, given), (b, _) = compiled(x), model(x)
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
            assert given is model.weight
            model.weight.add_(0.1)
            model.scale[7] = 3


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_weights_in_other_orders_of_memory(layout):
    model, x = network().to(memory_format=layout), images().contiguous(memory_format=layout)
    with torch.no_grad():
        model[8].weight.data = torch.randn(8, 5).t()
    compiled = torch.compile(model, backend="xloom")
    agrees(compiled, model, x)
    model[8].weight.data = model[8].weight.data.contiguous()
    agrees(compiled, model, x)


def test_bfloat16():
    model, x = network(32).bfloat16(), images().bfloat16()
    agrees(torch.compile(model, backend="xloom"), model, x, rtol=5e-2, atol=5e-2)


def test_transposed_convolutions_of_bf16():
    """Places between those of the input are none for processors that multiply tiles."""
    layers = (
        nn.ConvTranspose2d(3, 32, 2, 2),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1),
        nn.ConvTranspose2d(16, 24, 3, 2),
    )
    model = nn.Sequential(*layers).bfloat16().eval()
    agrees(torch.compile(model, backend="xloom"), model, images().bfloat16(), rtol=0.05, atol=0.05)


def test_inference_tensors_are_not_counted_by_torch():
    with torch.inference_mode():
        model, x = network(), images()
        compiled = torch.compile(model, backend="xloom")
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
            model[0].weight.mul_(2)


def test_nothing_is_transposed_between_convolutions():
    found = []
    original = compile_backend.frozen
    model, x = network(), images()
    try:
        compile_backend.frozen = lambda *a: found.append(original(*a)) or found[-1]
        agrees(torch.compile(model, backend="xloom"), model, x)
    finally:
        compile_backend.frozen = original
    [translated] = found
    opcodes = [i.opcode for i in translated.module.entry]
    assert "transpose" not in opcodes and "rsqrt" not in opcodes
    assert opcodes.count("convolution") == 2 and opcodes.count("multiply") <= 1  # the mean's


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch.export's own
def test_exported_models(computations):
    model, x = network(), images()
    exported = export(model, (x,))
    for _ in range(2):
        torch.testing.assert_close(exported(x), model(x), rtol=1e-4, atol=1e-5)
    assert len(computations) == 1
    _scaled(model)
    torch.testing.assert_close(exported(x), model(x), rtol=1e-4, atol=1e-5)


def test_weights_are_read_at_each_call_where_an_option_says_so():
    model, x = network(), images()
    compiled = torch.compile(model, backend="xloom", options={"freezing": False})
    agrees(compiled, model, x)
    last = model[8]
    assert isinstance(last, nn.Linear)
    last.weight.data[2, 3] += 1  # torch does not count it, and the rest of the weight is as it was
    agrees(compiled, model, x)


def test_unknown_options_are_refused():
    compiled = torch.compile(network(), backend="xloom", options={"freeze": True})
    with pytest.raises(Exception, match=r"no option 'freeze'.*it has freezing"):
        compiled(images())


def test_narrow_weights_are_kept_narrow():
    text = """HloModule m
ENTRY e {
  x = f32[1,9,9,8] parameter(0)
  w = bf16[4,8,3,3] parameter(1)
  wide = f32[4,8,3,3] convert(w)
  last = f32[3,3,8,4] transpose(wide), dimensions={2,3,1,0}
  ROOT y = f32[1,7,7,4] convolution(x, last), window={size=3x3}, dim_labels=b01f_01io->b01f
}"""
    module = xl.parse(text)
    widen_last(module.entry, {1})
    xl.verify(module)
    division = divided(module, {1})
    assert division is not None
    assert [str(s.dtype) for s in division.weights.entry.root.shape.elements] == ["bf16"]


@pytest.mark.skipif(not process_target().has_tiles, reason="no AMX")
def test_filters_of_bf16_lie_in_lines():
    text = """HloModule m
ENTRY e {
  x = bf16[1,9,9,32] parameter(0)
  w = bf16[3,3,32,48] parameter(1)
  ROOT y = f32[1,7,7,48] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f
}"""
    module, before = xl.parse(text), xl.parse(text)
    put_in_lines(module.entry, {1})
    assert module.entry.root["dim_labels"].kernel_output_feature == 0
    r = torch.Generator().manual_seed(0)
    arguments = [torch.randn(i.shape.dims, generator=r).numpy().astype("bfloat16") for i in before.entry.parameters]
    np.testing.assert_allclose(xl.evaluate(module, *arguments), xl.evaluate(before, *arguments), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows,depth", [((2, 64), 768), ((197,), 1024), ((3, 50), 300)])
@pytest.mark.parametrize("turned", [False, True])
def test_products_read_weights_in_panels(rows, depth, turned):
    columns = 960
    (lead, weights) = ",".join(map(str, rows)), f"{depth},{columns}" if turned else f"{columns},{depth}"
    text = f"""HloModule m
ENTRY e {{
  x = f32[{lead},{depth}] parameter(0)
  w = f32[{weights}] parameter(1)
  ROOT y = f32[{lead},{columns}] dot(x, w), lhs_contracting_dims={{{len(rows)}}}, rhs_contracting_dims={{{int(not turned)}}}
}}"""
    module, before = xl.parse(text), xl.parse(text)
    put_weights_in_panels(module.entry, {1})
    panels = module.entry.root.operands[0].operands[1].shape.dims
    assert len(panels) == 3 and panels[0] * panels[2] == columns and panels[1] == depth
    r = torch.Generator().manual_seed(0)
    arguments = [torch.randn(i.shape.dims, generator=r).numpy() for i in before.entry.parameters]
    expected = xl.evaluate(before, *arguments)
    np.testing.assert_allclose(xl.compile(module)(*arguments), expected, rtol=1e-4, atol=1e-3)


def test_few_rows_and_narrow_weights_need_no_panels():
    for rows, weights in ((8, "w"), (128, "n = f32[768,768] convert(w)")):
        kind, name = ("f32", "w") if weights == "w" else ("bf16", "n")
        made = "" if weights == "w" else weights
        module = xl.parse(f"""HloModule m
ENTRY e {{
  x = f32[{rows},768] parameter(0)
  w = {kind}[768,768] parameter(1)
  {made}
  ROOT y = f32[{rows},768] dot(x, {name}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
}}""")
        put_weights_in_panels(module.entry, {1})
        assert module.entry.root.opcode == "dot"
