"""What this machine can do with its memory and its arithmetic, measured by programs of our own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import xloom

_ELEMENTS = 1 << 23  # three arrays of 32 MiB: more than caches hold
_SIZE = 1024
_SECONDS = 0.5
_TRIAD = f"""HloModule triad
ENTRY triad {{
  b = f32[{_ELEMENTS}] parameter(0)
  c = f32[{_ELEMENTS}] parameter(1)
  three = f32[] constant(3)
  threes = f32[{_ELEMENTS}] broadcast(three), dimensions={{}}
  product = f32[{_ELEMENTS}] multiply(threes, c)
  ROOT a = f32[{_ELEMENTS}] add(b, product)
}}"""
_PRODUCT = f"""HloModule product
ENTRY product {{
  a = f32[{_SIZE},{_SIZE}] parameter(0)
  ROOT c = f32[{_SIZE},{_SIZE}] dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}"""


@dataclass(frozen=True)
class Limits:
    """The roof of a roofline."""

    bandwidth: float
    """Bytes a second, of a triad of arrays that no cache holds."""
    peak: float
    """f32 operations a second, of a matrix product; two a fused multiply-add."""


def measure() -> Limits:
    """Takes about a second. The best of several runs: what the machine can do when nobody else uses it."""
    vector = np.ones(_ELEMENTS, np.float32)
    matrix = np.ones((_SIZE, _SIZE), np.float32)
    triad, product = (xloom.compile(xloom.parse(text)) for text in (_TRIAD, _PRODUCT))
    bandwidth = 3 * vector.nbytes / _best(lambda: triad(vector, vector))
    return Limits(bandwidth, 2 * _SIZE**3 / _best(lambda: product(matrix)))


def _best(run: Callable[[], Any]) -> float:
    run()
    shortest, end = float("inf"), time.perf_counter() + _SECONDS
    while (start := time.perf_counter()) < end:
        run()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest
