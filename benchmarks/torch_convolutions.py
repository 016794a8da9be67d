"""The set's convolutions as PyTorch calls them, which is how oneDNN gets them.

Each takes the set's arguments and returns functions without arguments, one a memory format: some are faster with
channels first, some with channels last, and PyTorch's users may choose. Arguments are laid out before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.nn import functional as F

Run = Callable[[], np.ndarray]  # with dimensions in the set's order
Prepare = Callable[[Sequence[np.ndarray]], list[Run]]

CONVOLUTIONS: dict[str, Prepare] = {}

_LAST = {3: torch.contiguous_format, 4: torch.channels_last, 5: torch.channels_last_3d}


def _formats(x: np.ndarray) -> list[torch.Tensor]:
    """An image whose features are last, as PyTorch names its dimensions: in two orders of memory."""
    view = torch.from_numpy(np.moveaxis(x, -1, 1))
    last = view if x.ndim == 3 else view.contiguous(memory_format=_LAST[x.ndim])
    return [view.contiguous(), last]


def _kernel(w: np.ndarray) -> torch.Tensor:
    """Features of the result first, then those of the operand."""
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(w, (-1, -2), (0, 1))))


def _last(result: torch.Tensor) -> np.ndarray:
    """With the features last, as most of the set has them; nothing is moved."""
    return result.movedim(1, -1).numpy()


def _forward(name: str, call: Callable[..., torch.Tensor], before: int = 0, after: int = 0, **options) -> None:
    """`call(x, w, **options)`; the image has a border of zeros already where it is not the same on both sides."""

    def prepare(arguments: Sequence[np.ndarray]) -> list[Run]:
        x, w, *rest = arguments
        border = [(0, 0), *[(before, after)] * (x.ndim - 2), (0, 0)]
        kernel, others = _kernel(w), [torch.from_numpy(a) for a in rest]
        return [lambda x=x: _last(call(x, kernel, *others, **options)) for x in _formats(np.pad(x, border))]

    CONVOLUTIONS[name] = prepare


_forward("3x3", F.conv2d, padding=1)
_forward("3x3-batch", F.conv2d, padding=1)
_forward("1x1", F.conv2d)
_forward("7x7-stride-2", F.conv2d, before=2, after=3, stride=2)
_forward("3x3-bias-relu", lambda *operands: F.conv2d(*operands, padding=1).relu_())
_forward("depthwise", F.conv2d, padding=1, groups=32)
_forward("grouped", F.conv2d, padding=1, groups=32)
_forward("dilated", F.conv2d, padding=2, dilation=2)
_forward("1d", F.conv1d, padding=4)
_forward("3d", F.conv3d, padding=1)


def _channels_first(arguments: Sequence[np.ndarray]) -> list[Run]:
    x, w = (torch.from_numpy(a) for a in arguments)
    images = x, x.contiguous(memory_format=torch.channels_last)
    return [lambda x=x: F.conv2d(x, w, padding=1).numpy() for x in images]


def _transposed(arguments: Sequence[np.ndarray]) -> list[Run]:
    x, w = arguments
    kernel = torch.from_numpy(np.ascontiguousarray(np.moveaxis(w[::-1, ::-1], (-2, -1), (0, 1))))
    return [lambda x=x: _last(F.conv_transpose2d(x, kernel, stride=2, padding=1)) for x in _formats(x)]


def _backward(y: torch.Tensor, x: torch.Tensor, w: torch.Tensor, stride: int, padding: int, which: int) -> torch.Tensor:
    wanted = [k == which for k in range(3)]
    operands = y, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1
    return torch.ops.aten.convolution_backward(*operands, wanted)[which]


def _gradient_filter(arguments: Sequence[np.ndarray]) -> list[Run]:
    """Of the kernel."""
    x, y = arguments
    w = torch.zeros(y.shape[-1], x.shape[-1], 3, 3)
    pairs = zip(_formats(x), _formats(y), strict=True)
    return [lambda x=x, y=y: _backward(y, x, w, 1, 1, which=1).permute(2, 3, 1, 0).numpy() for x, y in pairs]


def _gradient_input(arguments: Sequence[np.ndarray]) -> list[Run]:
    """PyTorch's border is the same on both sides: the last row and column are left off."""
    y, w = arguments
    n, h, v, c = y.shape[0], 2 * y.shape[1] + 1, 2 * y.shape[2] + 1, w.shape[2]
    images = _formats(np.zeros((n, h, v, c), y.dtype))
    pairs = zip(_formats(y), images, strict=True)
    kernel = _kernel(w)
    return [lambda y=y, x=x: _last(_backward(y, x, kernel, 2, 0, which=0)[:, :, :-1, :-1]) for y, x in pairs]


CONVOLUTIONS |= {
    "3x3-nchw": _channels_first,
    "transposed": _transposed,
    "gradient-filter": _gradient_filter,
    "gradient-input": _gradient_input,
}
