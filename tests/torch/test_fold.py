"""Patches put together to images, and taken out of them."""

import pytest
import torch
from torch.nn.functional import fold, unfold

import xloom.torch  # noqa: F401 - the backend
from xloom.torch.compile_backend import traced


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ((3, 3), {}),
        ((2, 3), {"stride": (2, 3)}),
        ((3, 2), {"stride": (3, 2), "padding": (1, 1)}),
        ((3, 3), {"stride": (1, 2), "padding": (1, 2), "dilation": (2, 1)}),
        ((3, 2), {"stride": (4, 5)}),
    ],
)
def test_fold_and_unfold(kernel, options, batched):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 12, 11, dtype=torch.float64)[slice(None) if batched else 0].requires_grad_()

    def both(x):
        patches = unfold(x, kernel, **options)
        return patches, fold(patches * torch.arange(patches.shape[-1]), (12, 11), kernel, **options)

    torch._dynamo.reset()
    found, want = torch.compile(both, backend="xloom")(x), both(x)
    torch.testing.assert_close(found, want)
    losses = (first.square().sum() + second.square().sum() for first, second in (found, want))
    torch.testing.assert_close(*(torch.autograd.grad(loss, x) for loss in losses))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    ("dimension", "size", "step"), [(1, 3, 1), (0, 4, 2), (1, 5, 3), (2, 2, 2), (-1, 2, 5), (0, 25, 1), (1, 7, 7)]
)
def test_gradients_of_windows(dimension, size, step, dtype):
    torch.manual_seed(0)
    x = torch.randint(-8, 8, (30, 9, 11)).to(dtype).requires_grad_()
    gradients = []
    for door in (traced, lambda f: f):
        windows = door(lambda x: x.unfold(dimension, size, step))(x)
        weights = (torch.arange(windows.numel()) % 3).view(windows.shape).to(dtype)
        gradients.append(torch.autograd.grad(windows, x, weights)[0])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    "options",
    [
        {"hop_length": 4, "window": torch.hann_window(16, dtype=torch.float64)},
        {
            "hop_length": 5,
            "win_length": 12,
            "window": torch.ones(12, dtype=torch.float64),
            "normalized": True,
            "length": 70,
        },
        {"hop_length": 8, "center": False, "length": 90, "window": torch.ones(16, dtype=torch.float64)},
        {"hop_length": 4, "onesided": False, "return_complex": True, "window": torch.ones(16, dtype=torch.float64)},
    ],
)
@pytest.mark.parametrize("signals", [(), (3,)])
def test_inverse_short_time_transforms(options, signals):
    torch.manual_seed(0)
    onesided = options.get("onesided", True)
    spectra = torch.randn(*signals, 9 if onesided else 16, 18, dtype=torch.complex128, requires_grad=True)

    def inverse(x):
        return torch.istft(x, 16, **options)

    found, want = traced(inverse)(spectra), inverse(spectra)
    torch.testing.assert_close(found, want)
    torch.testing.assert_close(*(torch.autograd.grad(y.abs().sum(), spectra)[0] for y in (found, want)))
