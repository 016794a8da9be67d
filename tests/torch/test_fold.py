"""Patches put together to images, and taken out of them."""

import pytest
import torch
from torch.nn.functional import fold, unfold

import xloom.torch  # noqa: F401 - the backend


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
