"""Products of a few rows with the weights of a model, beside what the machine can do: bandwidth and multiply-adds.

python -m benchmarks.few_rows [--rows 1,8] [--types bf16,s8] [--weights 2048x8192] [--xla]

Weights are wider than any cache. The limit is the larger of two times: to read the operands and write the result at
the bandwidth of a triad, and to do a f32 multiply-add for each product at the rate of registers that wait for nothing.
Instructions that do several at once can take less: shares above one are no mistake. Numbers of 4 bits lie in a byte
each, as NumPy has them, and count so.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from benchmarks.share_of_limit import Limits

ROWS = (1, 2, 4, 8, 16, 32, 64)
TYPES = {
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f8": ml_dtypes.float8_e4m3fn,
    "s8": np.int8,
    "s4": ml_dtypes.int4,
}
WEIGHTS = (2048, 8192)
_REPEATS = 7


def program(layout: str) -> Callable[..., Any]:
    """x[rows, depth] times weights that lie as [depth, columns] ("kn") or [columns, depth] ("nk"), as models have them.

    Weights of 16 bits meet rows of the same type; narrower ones are converted, and scaled per column.
    """
    dims = (((1,), (0 if layout == "kn" else 1,)), ((), ()))

    def product(x: jax.Array, w: jax.Array, *scale: jax.Array) -> jax.Array:
        found = jax.lax.dot_general(x, w.astype(x.dtype), dims, preferred_element_type=jnp.float32)
        return found * scale[0] if scale else found

    return product


def operands(kind: str, layout: str, rows: int, weights: tuple[int, int]) -> list[np.ndarray]:
    """Rows, weights and, where those are narrow, scales: numbers that are exact in all types."""
    random = np.random.default_rng(0)
    depth, columns = weights
    x = np.float32 if kind == "f32" else np.float16 if kind == "f16" else ml_dtypes.bfloat16
    w = random.integers(-7, 8, (depth, columns) if layout == "kn" else (columns, depth), np.int8)
    scale = [np.full(columns, 0.5, np.float32)] if np.dtype(TYPES[kind]).itemsize == 1 else []
    return [random.integers(-7, 8, (rows, depth)).astype(x), w.astype(TYPES[kind]), *scale]


def main() -> None:
    """A table: a line a type and layout, a column a number of rows."""
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=summary, epilog=rest)
    parser.add_argument("--rows", default=",".join(map(str, ROWS)), help="numbers of rows (%(default)s)")
    parser.add_argument("--types", default=",".join(TYPES), help="types of weights (%(default)s)")
    parser.add_argument("--layouts", default="kn,nk", help="weights as [depth, columns] and transposed (%(default)s)")
    parser.add_argument("--weights", default="x".join(map(str, WEIGHTS)), help="depth x columns (%(default)s)")
    parser.add_argument("--xla", action="store_true", help="XLA:CPU's time over ours, too")
    chosen = parser.parse_args()
    if unknown := [kind for kind in chosen.types.split(",") if kind not in TYPES]:
        parser.error(f"no types of weights: {', '.join(unknown)}; there are {', '.join(TYPES)}")
    rows = [int(n) for n in chosen.rows.split(",")]
    depth, columns = map(int, chosen.weights.split("x"))
    limits = Limits(_REPEATS, chosen.xla)
    print(f"{f'{depth}x{columns}':10}" + "".join(f"{n:>14}" for n in rows))
    for kind in chosen.types.split(","):
        for layout in chosen.layouts.split(","):
            print(f"{kind + ' ' + layout:10}", end="", flush=True)
            for n in rows:
                arguments = operands(kind, layout, n, (depth, columns))
                lowered = jax.jit(program(layout)).lower(*arguments)
                nbytes = sum(a.nbytes for a in arguments) + 4 * n * columns
                found = limits.measure(lowered, arguments, nbytes, n * depth * columns)
                print(f"{found!s:>14}", end="", flush=True)
            print()
    limits.conclude()


if __name__ == "__main__":
    main()
