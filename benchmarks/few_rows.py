"""Products of a few rows with the weights of a model, beside what the machine can do: bandwidth and multiply-adds.

python -m benchmarks.few_rows [--rows 1,8] [--types bf16,s8] [--weights 2048x8192] [--xla]

Weights are wider than any cache. The limit is the larger of two times: to read the operands and write the result at
the bandwidth of a triad, and to do a f32 multiply-add for each product at the rate of registers that wait for nothing.
Instructions that do several at once can take less: shares above one are no mistake. Numbers of 4 bits lie in a byte
each, as NumPy has them, and count so.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

import xloom as xl
from benchmarks.result import geometric_mean
from benchmarks.timing import alternate, median_wall, ratios
from xloom.cli.yardsticks import Yardstick, arithmetic, memory

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


def measure(
    kind: str, layout: str, rows: int, weights: tuple[int, int], marks: Sequence[Yardstick], with_xla: bool
) -> tuple[float, float, float]:
    """The share of the limit, the seconds, and XLA's time over ours (NaN where it was not asked)."""
    arguments = operands(kind, layout, rows, weights)
    lowered = jax.jit(program(layout)).lower(*arguments)
    executable = xl.compile(xl.from_stablehlo(lowered.as_text()))
    runs = [mark.run for mark in marks] + [lambda: executable(*arguments)]
    if with_xla:
        theirs, arrays = lowered.compile(), [jnp.asarray(a) for a in arguments]
        runs.append(lambda: theirs(*arrays).block_until_ready())
    bandwidth, multiply_adds, ours, *xla = alternate(*runs, repeats=_REPEATS)
    nbytes = sum(a.nbytes for a in arguments) + 4 * rows * weights[1]
    reading = statistics.median(ratios(bandwidth, ours)) * nbytes / marks[0].amount
    adding = statistics.median(ratios(multiply_adds, ours)) * 2 * rows * weights[0] * weights[1] / marks[1].amount
    return max(reading, adding), median_wall(ours), statistics.median(ratios(xla[0], ours)) if xla else float("nan")


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
    rows = [int(n) for n in chosen.rows.split(",")]
    depth, columns = map(int, chosen.weights.split("x"))
    marks, shares, seen = [memory(), arithmetic()], [], []
    print(f"weights {depth}x{columns}; share of the limit" + (" (XLA's time over ours)" if chosen.xla else ""))
    print(f"{'':8}" + "".join(f"{n:>14}" for n in rows))
    for kind in chosen.types.split(","):
        for layout in chosen.layouts.split(","):
            print(f"{kind + ' ' + layout:8}", end="", flush=True)
            for n in rows:
                share, seconds, xla = measure(kind, layout, n, (depth, columns), marks, chosen.xla)
                shares.append(share)
                if chosen.xla:
                    seen.append(xla)
                text = f"{share:.2f}" + (f" ({xla:.1f})" if chosen.xla else f" {1e3 * seconds:.2f}ms")
                print(f"{text:>14}", end="", flush=True)
            print()
    print(f"geometric mean {geometric_mean(shares):.2f}, least {min(shares):.2f}")
    if seen:
        print(f"XLA's time over ours: geometric mean {geometric_mean(seen):.2f}, least {min(seen):.2f}")


if __name__ == "__main__":
    main()
