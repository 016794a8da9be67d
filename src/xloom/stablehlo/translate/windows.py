"""Windows of reductions and of convolutions, which name their dilations differently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xloom.hlo.attributes import WindowDimension
from xloom.stablehlo.translate.rules import NotTranslatedError


def window(attributes: Any, sizes: Sequence[int], dilations: str, bases: str) -> tuple[WindowDimension, ...]:
    """A window of these sizes; attributes that are not there have their defaults."""

    def row(name: str, default: Any) -> list[Any]:
        return list(attributes[name]) if name in attributes else [default] * len(sizes)

    padding = np.zeros((len(sizes), 2), int)
    if "padding" in attributes:
        padding = np.array(attributes["padding"]).reshape(-1, 2)
    if len(padding) != len(sizes):
        raise NotTranslatedError("padding")
    rows = zip(
        sizes,
        row("window_strides", 1),
        padding.tolist(),
        row(dilations, 1),
        row(bases, 1),
        row("window_reversal", False),
        strict=True,
    )
    return tuple(
        WindowDimension(size, stride, low, high, dilation, base, bool(reversal))
        for size, stride, (low, high), dilation, base, reversal in rows
    )
