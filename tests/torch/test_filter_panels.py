"""Convolutions whose filters were put in the order in which kernels read them, against torch's."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import xloom as xl
from xloom.cpu.kernels.convolution import filter_panels
from xloom.llvm.target import target_named
from xloom.torch import compile_backend
from xloom.torch.ahead import export


@pytest.fixture(autouse=True)
def _however_small(monkeypatch):
    monkeypatch.setattr(filter_panels, "_LARGE", 0)


@pytest.mark.parametrize(
    ("inputs", "outputs", "kernel", "options"),
    [
        (40, 128, 3, {"padding": 1}),
        (70, 192, 1, {}),
        (16, 96, 3, {"stride": 2, "padding": 1}),
        (8, 144, (1, 5), {"padding": (0, 2), "dilation": (1, 2)}),
        (5, 128, 7, {"stride": 2, "padding": 3}),
        (300, 256, 3, {"padding": 1}),
    ],
)
@pytest.mark.parametrize("batch", [1, 3])
def test_values(inputs, outputs, kernel, options, batch, monkeypatch):
    torch._dynamo.reset()
    torch.manual_seed(0)
    found, original = [], compile_backend.frozen
    monkeypatch.setattr(compile_backend, "frozen", lambda *a: found.append(original(*a)) or found[-1])
    model, x = nn.Conv2d(inputs, outputs, kernel, **options), torch.randn(batch, inputs, 13, 9)
    compiled = torch.compile(model, backend="xloom")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    [convolution] = [i for i in found[0].module.entry if i.opcode == "convolution"]
    assert convolution.backend_config.startswith("filter_panels=")


def test_what_is_not_finite_in_a_filter():
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = nn.Conv2d(8, 160, 3, padding=1), torch.randn(2, 8, 6, 5)
    with torch.no_grad():
        model.weight[3, 2, 0, 0], model.weight[131, 5, 2, 1] = math.inf, math.nan
        got = torch.compile(model, backend="xloom")(x)
        given = torch.compile(lambda x, w, b: torch.conv2d(x, w, b, padding=1), backend="xloom")  # as it lies
        expected = given(x, model.weight.clone(), model.bias)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4, equal_nan=True)
    assert expected[:, 3].isnan().any() and expected[:, 131].isnan().all() and expected[:, 130].isfinite().all()


def test_a_transposed_convolution_and_groups_are_as_they_were():
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.ConvTranspose2d(20, 128, 2, 2), nn.Conv2d(128, 256, 3, groups=2)).eval()
    x = torch.randn(1, 20, 6, 7)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="xloom")(x), model(x), rtol=1e-4, atol=1e-4)


def test_what_says_that_its_filter_lies_in_panels_stays():
    text = """ENTRY e {
      x = f32[1,6,6,8] parameter(0)
      w = f32[3,3,8,96] parameter(1)
      zero = f32[] constant(0)
      p = f32[1,8,8,8] pad(x, zero), padding=0_0x1_1x1_1x0_0
      r = f32[3,3,8,96] reverse(w), dimensions={0,1}
      ROOT c = f32[1,6,6,96] convolution(p, r), window={size=3x3}, dim_labels=b01f_01io->b01f
    }"""
    for config in ("", "filter_panels=48"):
        module = xl.parse(text)
        module.entry.root.backend_config = config
        xl.run_passes(module, "layout-simplification")
        assert [o.opcode for o in module.entry.root.operands] == (["pad", "reverse"] if config else ["parameter"] * 2)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch.export's own
def test_exported_hlo_is_of_weights_and_arguments():
    torch.manual_seed(0)
    model, x = nn.Conv2d(40, 128, 3, bias=False).eval(), torch.randn(1, 40, 9, 9)
    exported = export(model, (x,))
    with torch.no_grad():
        torch.testing.assert_close(exported(x), model(x), rtol=1e-4, atol=1e-4)
        told = xl.evaluate(exported.module, model.weight.numpy(), x.numpy())
        told = told[0] if isinstance(told, tuple) else told
        torch.testing.assert_close(torch.from_numpy(np.array(told)), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("target", "width"), [("x86-64-v3", 16), ("x86-64-v4", 64)])
def test_panels_are_as_wide_as_tiles_of_the_target(target, width):
    root = xl.parse("""ENTRY e {
      x = f32[1,7,7,64] parameter(0)
      w = f32[3,3,64,192] parameter(1)
      ROOT c = f32[1,5,5,192] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f
    }""").entry.root
    assert filter_panels.useful_width(root, target_named(target)) == width
