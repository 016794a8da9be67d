"""What moves, repeats, cuts and joins arrays, and what of jax.numpy is made of that."""

import jax.numpy as jnp
from jax import lax

from benchmarks.sweep.case import Family, array

LAYOUT = Family("layout")

_MOVES = {
    "transpose": lambda x: x.T,
    "flip-rows": lambda x: jnp.flip(x, 0),
    "flip-columns": lambda x: jnp.flip(x, 1),
    "rot90": jnp.rot90,
    "roll": lambda x: jnp.roll(x, 5, 1),
    "tile": lambda x: jnp.tile(x, (2, 3)),
    "repeat-rows": lambda x: jnp.repeat(x, 3, 0),
    "repeat-columns": lambda x: jnp.repeat(x, 3, 1),
    "pad-constant": lambda x: jnp.pad(x, 3),
    "pad-reflect": lambda x: jnp.pad(x, 3, mode="reflect"),
    "pad-edge": lambda x: jnp.pad(x, 3, mode="edge"),
    "pad-wrap": lambda x: jnp.pad(x, 3, mode="wrap"),
    "concatenate-rows": lambda x: jnp.concatenate([x, x + 1], 0),
    "concatenate-columns": lambda x: jnp.concatenate([x, x + 1], 1),
    "stack-first": lambda x: jnp.stack([x, x * 2]),
    "stack-last": lambda x: jnp.stack([x, x * 2], -1),
    "tril": jnp.tril,
    "triu": jnp.triu,
    "diag": jnp.diag,
    "diagonal": jnp.diagonal,
    "reshape-transpose": lambda x: x.reshape(-1, 64).T,
    "broadcast": lambda x: jnp.broadcast_to(x[:, None], (x.shape[0], 4, x.shape[1])),
    "slice": lambda x: x[5:-5, 7:-7],
    "slice-strided": lambda x: x[::2, ::2],
    "slice-negative": lambda x: x[::-2, ::-3],
    "split": lambda x: jnp.split(x, 4, 1),
    "where": lambda x: jnp.where(x > 0, x, 0),
    "select": lambda x: jnp.select([x > 1, x < 0], [x, x * 2], 0),
    "swap-3d": lambda x: x.reshape(16, -1, 32).transpose(1, 0, 2),
    "permute-2031": lambda x: x.reshape(8, 16, 32, -1).transpose(2, 0, 3, 1),
    "permute-0312": lambda x: x.reshape(8, 16, 32, -1).transpose(0, 3, 1, 2),
    "permute-0213": lambda x: x.reshape(8, -1, 16, 32).transpose(0, 2, 1, 3),
    "outer": lambda x: jnp.outer(x[:, 0], x[0]),
    "clip": lambda x: jnp.clip(x, 0, 1),
    "diff-rows": lambda x: jnp.diff(x, axis=0),
    "diff-columns": lambda x: jnp.diff(x, axis=1),
    "copy": lambda x: x + 0,
    "meshgrid": lambda x: jnp.meshgrid(x[0], x[1]),
    "cross": lambda x: jnp.cross(x.reshape(-1, 4)[:, :3], x.reshape(-1, 4)[:, 1:]),
}
_COMPUTATIONS = {
    "trace": jnp.trace,
    "kron": lambda x: jnp.kron(x[:32, :32], x[:16, :16]),
    "vander": lambda x: jnp.vander(x[0], 8),
    "gradient": jnp.gradient,
    "interp": lambda x: jnp.interp(x, jnp.arange(64.0), jnp.arange(64.0) ** 2),
    "convolve": lambda x: jnp.convolve(x[0], x[1, :9]),
    "corrcoef": lambda x: jnp.corrcoef(x[:64]),
    "cov": lambda x: jnp.cov(x[:64]),
    "fill": lambda x: jnp.full_like(x, 3),
    "arange": lambda x: jnp.arange(1_000_000) + x[0, 0].astype(int),
    "patches": lambda x: lax.conv_general_dilated_patches(x[None, None], (3, 3), (1, 1), "SAME"),
    "digitize": lambda x: jnp.digitize(x, jnp.linspace(-2, 2, 10)),
    "polyval": lambda x: jnp.polyval(jnp.arange(6.0), x),
    "nonzero": lambda x: jnp.nonzero(x > 0, size=1000),
    "unique": lambda x: jnp.unique(jnp.round(x[0] * 4), size=30),
    "trapezoid": lambda x: jnp.trapezoid(x, axis=1),
    "isin": lambda x: jnp.isin(jnp.round(x), jnp.arange(5.0)),
    "histogram": lambda x: jnp.histogram(x, bins=20)[0],
    "quantile-rows": lambda x: jnp.quantile(x[:64], 0.3, axis=1),
    "percentile-columns": lambda x: jnp.percentile(x[:64], 30, axis=0),
}

for name, function in _MOVES.items():
    for dtype in ("f32", "bf16", "f64", "s8"):
        LAYOUT.add(f"{name}-{dtype}-1024", function, array(1024, 1024, dtype=dtype))
    LAYOUT.add(f"{name}-f32-128", function, array(128, 128))

for name, function in _COMPUTATIONS.items():
    for size in (1024, 128):
        LAYOUT.add(f"{name}-f32-{size}", function, array(size, size))


def _depth_to_space(x):
    return x.reshape(32, 32, 32, 4, 8).transpose(0, 1, 3, 2, 4).reshape(32, 128, -1)


for dtype in ("f32", "bf16", "f64", "s8"):
    LAYOUT.add(f"depth-to-space-{dtype}-1024", _depth_to_space, array(1024, 1024, dtype=dtype))

# sums of as much below as above zero are as far from exact as they are from each other
for size in (1024, 128):
    LAYOUT.add(
        f"scaled-columns-f32-{size}",
        lambda x: (x - x.max(1, keepdims=True)) / x.sum(0),
        array(size, size, low=0.5, high=1.5),
    )
