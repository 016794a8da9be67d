"""Movement of data: transposes, slices, pads, concatenations."""

import jax.numpy as jnp
import ml_dtypes

from benchmarks.programs.arguments import normal
from benchmarks.programs.registry import program


@program("transpose", normal(2048, 2048), streams=True)
def transpose(x):
    """Of a matrix."""
    return x.T


@program("transpose-add", normal(2048, 2048), normal(2048, 2048), streams=True)
def transpose_add(x, y):
    """One operand along its rows, the other across."""
    return x + y.T


@program("transpose-heads", normal(8, 512, 16, 64), streams=True)
def transpose_heads(x):
    """The middle dimensions swapped, as attention does."""
    return jnp.transpose(x, (0, 2, 1, 3))


@program("transpose-channels", normal(16, 64, 56, 56), streams=True)
def transpose_channels(x):
    """NCHW to NHWC."""
    return jnp.transpose(x, (0, 2, 3, 1))


@program("transpose-bf16", normal(2048, 2048, dtype=ml_dtypes.bfloat16), streams=True)
def transpose_bf16(x):
    """Two bytes an element."""
    return x.T


@program("concatenate", normal(1024, 512), normal(1024, 512), normal(1024, 1024), streams=True)
def concatenate(x, y, z):
    """Along rows, with arithmetic on the parts."""
    return jnp.concatenate([x + 1.0, y * 2.0, -z], axis=1)


@program("pad", normal(16, 112, 112, 32), streams=True)
def pad(x):
    """A border about images."""
    return jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))


@program("slice-mix", normal(2048, 2048))
def slice_mix(x):
    """Differences of neighbours, padded back to the whole."""
    across = jnp.pad(x[:, 1:] - x[:, :-1], ((0, 0), (0, 1)))
    down = jnp.pad(x[1:] - x[:-1], ((0, 1), (0, 0)))
    return jnp.abs(across) + jnp.abs(down)


@program("strided-slice", normal(4096, 2048))
def strided_slice(x):
    """Every other column, and every third row of it."""
    return x[::3, ::2] + 1.0


@program("interleave", normal(1024, 1024), normal(1024, 1024), streams=True)
def interleave(x, y):
    """Columns of two matrices in turn."""
    return jnp.stack([x, y], axis=-1).reshape(1024, 2048)


@program("reverse", normal(2048, 2048), streams=True)
def reverse(x):
    """Both dimensions."""
    return x[::-1, ::-1] * 2.0


@program("roll", normal(2048, 2048), streams=True)
def roll(x):
    """Rows and columns moved around."""
    return jnp.roll(x, (3, -5), (0, 1)) + x


@program("rotary", normal(8, 512, 16, 64), normal(512, 32), normal(512, 32))
def rotary(x, sine, cosine):
    """The rotary position embedding of attention."""
    left, right = x[..., :32], x[..., 32:]
    sine, cosine = sine[:, None, :], cosine[:, None, :]
    return jnp.concatenate([left * cosine - right * sine, right * cosine + left * sine], axis=-1)


@program("broadcast", normal(1024), normal(4096), streams=True)
def broadcast(x, y):
    """An outer sum."""
    return x[:, None] + y[None, :]
