"""Convolutions, in the shapes that networks have."""

import jax
from jax import lax

from benchmarks.programs.arguments import normal
from benchmarks.programs.registry import program

_NHWC = ("NHWC", "HWIO", "NHWC")
_NCHW = ("NCHW", "OIHW", "NCHW")


def _conv(x, w, strides=(1, 1), padding="SAME", numbers=_NHWC, **options):
    return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=numbers, **options)


@program("3x3", normal(1, 56, 56, 64), normal(3, 3, 64, 64), flops=2 * 56 * 56 * 64 * 64 * 9)
def conv_3x3(x, w):
    """The body of a residual network."""
    return _conv(x, w)


@program("3x3-batch", normal(8, 28, 28, 128), normal(3, 3, 128, 128), flops=2 * 8 * 28 * 28 * 128 * 128 * 9)
def conv_3x3_batch(x, w):
    """Several images at once."""
    return _conv(x, w)


@program("3x3-nchw", normal(1, 64, 56, 56), normal(64, 64, 3, 3), flops=2 * 56 * 56 * 64 * 64 * 9)
def conv_3x3_nchw(x, w):
    """Channels first."""
    return _conv(x, w, numbers=_NCHW)


@program("1x1", normal(4, 56, 56, 64), normal(1, 1, 64, 256), flops=2 * 4 * 56 * 56 * 64 * 256)
def conv_1x1(x, w):
    """A matrix product by another name."""
    return _conv(x, w)


@program("7x7-stride-2", normal(1, 224, 224, 3), normal(7, 7, 3, 64), flops=2 * 112 * 112 * 3 * 64 * 49)
def conv_7x7(x, w):
    """The first layer: three channels."""
    return _conv(x, w, strides=(2, 2))


@program("3x3-bias-relu", normal(1, 56, 56, 64), normal(3, 3, 64, 64), normal(64), flops=2 * 56 * 56 * 64 * 64 * 9)
def conv_bias_relu(x, w, b):
    """With what follows it."""
    return jax.nn.relu(_conv(x, w) + b)


@program("depthwise", normal(1, 112, 112, 32), normal(3, 3, 1, 32), streams=True)
def depthwise(x, w):
    """A filter a channel."""
    return _conv(x, w, feature_group_count=32)


@program("grouped", normal(1, 56, 56, 128), normal(3, 3, 4, 128), flops=2 * 56 * 56 * 128 * 4 * 9)
def grouped(x, w):
    """Thirty-two groups of four channels."""
    return _conv(x, w, feature_group_count=32)


@program("dilated", normal(1, 56, 56, 64), normal(3, 3, 64, 64), flops=2 * 56 * 56 * 64 * 64 * 9)
def dilated(x, w):
    """Holes in the filter."""
    return _conv(x, w, rhs_dilation=(2, 2))


@program("transposed", normal(1, 28, 28, 64), normal(4, 4, 64, 64), flops=2 * 56 * 56 * 64 * 64 * 4)
def transposed(x, w):
    """Twice the size, as a generator makes."""
    return lax.conv_transpose(x, w, (2, 2), "SAME")


@program("1d", normal(4, 4096, 32), normal(9, 32, 64), flops=2 * 4 * 4096 * 32 * 64 * 9)
def conv_1d(x, w):
    """Along a signal."""
    return _conv(x, w, strides=(1,), numbers=("NWC", "WIO", "NWC"))


@program("3d", normal(1, 16, 32, 32, 16), normal(3, 3, 3, 16, 32), flops=2 * 16 * 32 * 32 * 16 * 32 * 27)
def conv_3d(x, w):
    """Through a volume."""
    return _conv(x, w, strides=(1, 1, 1), numbers=("NDHWC", "DHWIO", "NDHWC"))


@program("gradient-filter", normal(4, 28, 28, 64), normal(4, 28, 28, 64), flops=2 * 4 * 28 * 28 * 64 * 64 * 9)
def gradient_filter(x, y):
    """The filter is as large as the image."""
    w = jax.ShapeDtypeStruct((3, 3, 64, 64), x.dtype)
    return jax.linear_transpose(lambda w: _conv(x, w), w)(y)


@program("gradient-input", normal(4, 56, 56, 64), normal(3, 3, 64, 64), flops=2 * 4 * 56 * 56 * 64 * 64 * 9)
def gradient_input(y, w):
    """Of a convolution with stride two."""
    x = jax.ShapeDtypeStruct((4, 112, 112, 64), y.dtype)
    return jax.linear_transpose(lambda x: _conv(x, w, strides=(2, 2)), x)(y)
