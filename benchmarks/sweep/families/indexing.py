"""Gathers, scatters and slices at computed places of a table of 1000 rows."""

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.sweep.case import Family, array

INDEXING = Family("indexing")

_ROWS, _COLUMNS, _INDICES = 1000, 64, 5000

# each of the table `x` and of indices `i` of its rows
_OF_ALL_TYPES = {
    "rows": lambda x, i: x[i],
    "rows-clip": lambda x, i: jnp.take(x, i, axis=0, mode="clip"),
    "rows-fill": lambda x, i: jnp.take(x, i, axis=0, mode="fill"),
    "columns": lambda x, i: x[:, i % _COLUMNS],
    "elements": lambda x, i: x[i, i % _COLUMNS],
    "set-rows": lambda x, i: x.at[i].set(1),
    "add-rows": lambda x, i: x.at[i].add(x[0]),
    "multiply-rows": lambda x, i: x.at[i].multiply(2),
    "max-rows": lambda x, i: x.at[i].max(0),
    "add-elements": lambda x, i: x.at[i, i % _COLUMNS].add(1),
    "set-elements": lambda x, i: x.at[i, i % _COLUMNS].set(1),
    "add-unique": lambda x, i: x.at[jnp.arange(500)].add(1, unique_indices=True, indices_are_sorted=True),
    "add-columns": lambda x, i: x.at[:, i[:64] % _COLUMNS].add(1),
    "dynamic-slice": lambda x, i: lax.dynamic_slice_in_dim(x, i[0], 100),
    "dynamic-update-slice": lambda x, i: lax.dynamic_update_slice_in_dim(x, x[:10], i[0], 0),
    "segment-sum": lambda x, i: jax.ops.segment_sum(x[i], i, _ROWS),
    "segment-max": lambda x, i: jax.ops.segment_max(x[i], i, _ROWS),
    "argsort-gather": lambda x, i: x[jnp.argsort(x[:, 0])],
    "choose": lambda x, i: jnp.choose(i[:_ROWS] % 3, [x[:, 0], x[:, 1], x[:, 2]], mode="clip"),
    "take-along-columns": lambda x, i: jnp.take_along_axis(x, (i[:_ROWS] % _COLUMNS)[:, None], axis=1),
    "take-along-rows": lambda x, i: jnp.take_along_axis(x, jnp.broadcast_to(i[:, None], (_INDICES, _COLUMNS)), axis=0),
    "put": lambda x, i: jnp.put(x[:, 0], i, 1, inplace=False),
    "where": lambda x, i: jnp.where(x > 0, 1, x),
    "gather-windows": lambda x, i: jax.vmap(lambda k: lax.dynamic_slice_in_dim(x, k, 8))(i[:500]),
    "scatter-windows": lambda x, i: x.at[i[:300, None] + jnp.arange(3)].add(1),
    "update-each-row": lambda x, i: jax.vmap(
        lambda row, k: lax.dynamic_update_slice(row, jnp.ones(4, x.dtype), (k,)),
    )(x, i[:_ROWS] % 60),
}
_OF_FLOATS = {
    "gather-gradient": lambda x, i: jax.grad(lambda x: (x[i] ** 2).sum())(x),
    "embedding-gradient": lambda x, i: jax.grad(lambda x: jnp.take(x, i.reshape(50, 100), axis=0).sum())(x),
}
_OF_F32 = {
    "one-hot": lambda x, i: jax.nn.one_hot(i, _ROWS, dtype=x.dtype),
    "bincount": lambda x, i: jnp.bincount(i, length=_ROWS),
}

for table, types in (
    (_OF_ALL_TYPES, ("f32", "bf16", "f64", "s32", "s8")),
    (_OF_FLOATS, ("f32", "bf16", "f64")),
    (_OF_F32, ("f32",)),
):
    for name, function in table.items():
        for dtype in types:
            rows, indices = array(_ROWS, _COLUMNS, dtype=dtype), array(_INDICES, dtype="s32", low=0, high=_ROWS)
            INDEXING.add(f"{name}-{dtype}", function, rows, indices)

# of each of many numbers what a table has
for dtype in ("u8", "bf16", "f32"):
    numbers = array(2_000_000, dtype="u8", low=0, high=256)
    INDEXING.add(f"table-{dtype}", lambda table, numbers: table[numbers], array(256, dtype=dtype), numbers)
