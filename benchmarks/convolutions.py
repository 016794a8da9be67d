"""Convolutions as networks have them, and their gradients, beside what the machine can do: bandwidth and multiply-adds.

python -m benchmarks.convolutions [--networks resnet50] [--layouts nhwc] [--kinds forward,dx,dw] [--batches 1,8] [--xla]

The limit is the larger of two times: to read the operands and write the result at the bandwidth of a triad, and to do
a f32 multiply-add for each product at the rate of registers that wait for nothing. Padding counts as if it were read
and multiplied. `dx` is the gradient of the input, `dw` that of the filter. Arrays that fit a cache are read faster
than the triad does: shares above one are no mistake.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.share_of_limit import Limits

KINDS = ("forward", "dx", "dw")
LAYOUTS = {"nhwc": ("NHWC", "HWIO", "NHWC"), "nchw": ("NCHW", "OIHW", "NCHW")}
BATCHES = (1, 8, 32)
_REPEATS = 5


class Layer(NamedTuple):
    """A convolution of square images with a square window, padded so that stride 1 keeps the size."""

    size: int
    inputs: int
    outputs: int
    window: int = 1
    stride: int = 1
    groups: int = 1

    @property
    def result_size(self) -> int:
        """Rows and columns of the result."""
        return -(-self.size // self.stride)

    def multiply_adds(self, batch: int) -> int:
        """Products of the convolution, and of each of its gradients."""
        return batch * self.result_size**2 * self.outputs * (self.inputs // self.groups) * self.window**2

    def elements(self, batch: int) -> int:
        """Of input, filter and result."""
        filters = self.outputs * (self.inputs // self.groups) * self.window**2
        return filters + batch * (self.inputs * self.size**2 + self.outputs * self.result_size**2)

    def __str__(self) -> str:
        window = f"{self.window}x{self.window}"
        more = (f"/{self.stride}" if self.stride > 1 else "") + (f" g{self.groups}" if self.groups > 1 else "")
        return f"{self.size}² {self.inputs}-{self.outputs} {window}{more}"


NETWORKS = {
    "resnet50": (
        Layer(224, 3, 64, 7, 2), Layer(56, 64, 64), Layer(56, 64, 64, 3), Layer(56, 64, 256), Layer(56, 256, 64),
        Layer(56, 128, 128, 3, 2), Layer(28, 512, 128), Layer(28, 128, 128, 3), Layer(28, 128, 512),
        Layer(56, 256, 512, 1, 2), Layer(28, 256, 256, 3, 2), Layer(14, 256, 256, 3), Layer(14, 1024, 256),
        Layer(14, 256, 1024), Layer(7, 512, 512, 3), Layer(7, 2048, 512), Layer(7, 512, 2048),
    ),
    "mobilenet": (
        Layer(224, 3, 32, 3, 2), Layer(112, 32, 32, 3, 1, 32), Layer(112, 32, 16), Layer(112, 16, 96),
        Layer(112, 96, 96, 3, 2, 96), Layer(56, 96, 24), Layer(56, 144, 144, 3, 1, 144), Layer(28, 192, 192, 3, 1, 192),
        Layer(28, 192, 32), Layer(14, 64, 384), Layer(14, 384, 384, 3, 1, 384), Layer(14, 384, 96),
        Layer(14, 576, 576, 3, 2, 576), Layer(7, 960, 960, 3, 1, 960), Layer(7, 960, 160), Layer(7, 320, 1280),
    ),
    "convnext": (
        Layer(224, 3, 96, 4, 4), Layer(56, 96, 96, 7, 1, 96), Layer(56, 96, 384), Layer(28, 192, 192, 7, 1, 192),
        Layer(28, 192, 384, 2, 2), Layer(14, 384, 384, 7, 1, 384), Layer(7, 768, 768, 7, 1, 768), Layer(7, 768, 3072),
    ),
    "efficientnet": (
        Layer(56, 144, 144, 5, 2, 144), Layer(28, 240, 240, 5, 1, 240), Layer(14, 480, 480, 5, 1, 480),
        Layer(14, 672, 672, 5, 2, 672), Layer(7, 1152, 1152, 5, 1, 1152), Layer(28, 40, 240), Layer(7, 1152, 192),
    ),
}  # fmt: skip


def program(layer: Layer, layout: str, kind: str) -> Callable[..., Any]:
    """The convolution of (input, filter); of a gradient, the last of (filter, cotangent) or (input, cotangent)."""

    def convolution(x: jax.Array, w: jax.Array) -> jax.Array:
        pad = (layer.window - 1) // 2
        strides, padding = (layer.stride,) * 2, [(pad, layer.window - 1 - pad)] * 2
        if layer.stride == layer.window:
            padding = [(0, 0)] * 2
        return jax.lax.conv_general_dilated(
            x, w, strides, padding, dimension_numbers=LAYOUTS[layout], feature_group_count=layer.groups
        )

    if kind == "forward":
        return convolution
    number = KINDS.index(kind) - 1

    def gradient(kept: jax.Array, cotangent: jax.Array, other: jax.Array) -> jax.Array:
        primals = (other, kept) if number == 0 else (kept, other)
        return jax.vjp(convolution, *primals)[1](cotangent)[number]

    return gradient


def operands(layer: Layer, layout: str, kind: str, batch: int) -> list[np.ndarray]:
    """Input and filter; for a gradient, the one that is kept, the cotangent, and zeros for the other."""
    random = np.random.default_rng(0)

    def image(size: int, features: int) -> np.ndarray:
        dims = (batch, size, size, features) if layout == "nhwc" else (batch, features, size, size)
        return random.normal(size=dims).astype(np.float32)

    x, y = image(layer.size, layer.inputs), image(layer.result_size, layer.outputs)
    taps, each = (layer.window,) * 2, layer.inputs // layer.groups
    dims = (*taps, each, layer.outputs) if layout == "nhwc" else (layer.outputs, each, *taps)
    w = random.normal(size=dims).astype(np.float32)
    return {"forward": [x, w], "dx": [w, y, np.zeros_like(x)], "dw": [x, y, np.zeros_like(w)]}[kind]


def main() -> None:
    """A table: a line a layer, a column a kind, a layout and a batch."""
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=summary, epilog=rest)
    parser.add_argument("--networks", default=",".join(NETWORKS), help="whose layers (%(default)s)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="the convolution, gradients (%(default)s)")
    parser.add_argument("--layouts", default=",".join(LAYOUTS), help="of images (%(default)s)")
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)), help="images (%(default)s)")
    parser.add_argument("--xla", action="store_true", help="XLA:CPU's time over ours, too")
    chosen = parser.parse_args()
    columns = [
        (layout, kind, int(batch))
        for layout in chosen.layouts.split(",")
        for kind in chosen.kinds.split(",")
        for batch in chosen.batches.split(",")
    ]
    limits = Limits(_REPEATS, chosen.xla)
    print(f"{'':24}" + "".join(f"{f'{layout} {kind} {batch}':>16}" for layout, kind, batch in columns))
    for network in chosen.networks.split(","):
        print(network)
        for layer in NETWORKS[network]:
            print(f"{f'  {layer}':24}", end="", flush=True)
            for layout, kind, batch in columns:
                arguments = operands(layer, layout, kind, batch)
                lowered = jax.jit(program(layer, layout, kind), keep_unused=True).lower(*arguments)
                found = limits.measure(lowered, arguments, 4 * layer.elements(batch), layer.multiply_adds(batch))
                print(f"{found!s:>16}", end="", flush=True)
            print()
    limits.conclude()


if __name__ == "__main__":
    main()
