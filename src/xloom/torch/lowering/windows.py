"""Window functions, and other tensors that are made of numbers alone: constants, which torch's CPU computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from xloom.torch.arrays import as_array
from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.registry import lowers, overload

_WINDOWS = (
    *("aten.bartlett_window.default", "aten.bartlett_window.periodic"),
    *("aten.blackman_window.default", "aten.blackman_window.periodic"),
    *("aten.hamming_window.default", "aten.hamming_window.periodic"),
    *("aten.hamming_window.periodic_alpha", "aten.hamming_window.periodic_alpha_beta"),
    *("aten.kaiser_window.default", "aten.kaiser_window.periodic", "aten.kaiser_window.beta"),
)


def _window(name: str) -> Callable[..., Any]:
    def window(g: Graph, window_length: int, dtype: torch.dtype | None, periodic=None, alpha=None, beta=None):
        given = [each for each in (periodic, alpha, beta) if each is not None]
        return g.literal(as_array(overload(name)(window_length, *given, dtype=dtype, device="cpu")))

    return window


for _name in _WINDOWS:
    lowers(_name)(_window(_name))


@lowers("aten.fft_fftfreq.default")
def fftfreq(g: Graph, n: int, d: float, dtype: torch.dtype | None):
    """The frequencies of a transform's elements."""
    return g.literal(as_array(torch.fft.fftfreq(n, d, dtype=dtype, device="cpu")))


@lowers("aten.fft_rfftfreq.default")
def rfftfreq(g: Graph, n: int, d: float, dtype: torch.dtype | None):
    """Those of a real transform's, which are none below 0."""
    return g.literal(as_array(torch.fft.rfftfreq(n, d, dtype=dtype, device="cpu")))
