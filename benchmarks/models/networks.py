"""Networks as their papers describe them: MobileNet-v3, large (arXiv:1905.02244), and a U-Net (arXiv:1505.04597)."""

from __future__ import annotations

import torch
from torch import nn

# of each block: kernel, expanded channels, channels, squeeze and excite, hard-swish rather than ReLU, stride
_BLOCKS = [
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
]


def _layer(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, act: nn.Module | None = None):
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs, eps=1e-3), *([act] if act else []))


class _SqueezeExcite(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        between = max(8, (channels // 4 + 4) // 8 * 8)
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, between, 1), nn.ReLU(), nn.Conv2d(between, channels, 1)
        )
        self.gate = nn.Hardsigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(self.weigh(x))


class _Bottleneck(nn.Module):
    def __init__(self, inputs: int, kernel: int, wide: int, outputs: int, excite: bool, swish: bool, stride: int):
        super().__init__()
        act = nn.Hardswish if swish else nn.ReLU
        layers: list[nn.Module] = [] if wide == inputs else [_layer(inputs, wide, 1, act=act())]
        layers.append(_layer(wide, wide, kernel, stride, wide, act()))
        layers += [_SqueezeExcite(wide)] if excite else []
        self.layers = nn.Sequential(*layers, _layer(wide, outputs, 1))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


class MobileNetV3(nn.Module):
    """The large one, of 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        layers, channels = [_layer(3, 16, 3, 2, act=nn.Hardswish())], 16
        for kernel, wide, outputs, excite, swish, stride in _BLOCKS:
            layers.append(_Bottleneck(channels, kernel, wide, outputs, excite, swish, stride))  # type: ignore[arg-type]
            channels = outputs
        self.features = nn.Sequential(*layers, _layer(channels, 960, 1, act=nn.Hardswish()), nn.AdaptiveAvgPool2d(1))
        self.classes = nn.Sequential(nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of images [n, 3, 224, 224], scores [n, 1000]."""
        return self.classes(self.features(x).flatten(1))


class UNet(nn.Module):
    """With borders of zeros, so that sizes stay, and batch norms; `width` channels at full size."""

    def __init__(self, width: int = 32, depth: int = 4, classes: int = 2):
        super().__init__()
        sizes = [width << k for k in range(depth + 1)]
        self.down = nn.ModuleList(self._pair(a, b) for a, b in zip([3, *sizes], sizes, strict=False))
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * n, n, 2, 2) for n in sizes[-2::-1])
        self.merge = nn.ModuleList(self._pair(2 * n, n) for n in sizes[-2::-1])
        self.last = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _pair(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(_layer(inputs, outputs, 3, act=nn.ReLU()), _layer(outputs, outputs, 3, act=nn.ReLU()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of images [n, 3, h, w], scores [n, classes, h, w]."""
        kept = []
        for k, layers in enumerate(self.down):
            x = layers(self.pool(x) if k else x)
            kept.append(x)
        for up, merge, other in zip(self.up, self.merge, kept[-2::-1], strict=True):
            x = merge(torch.cat([other, up(x)], 1))
        return self.last(x)
