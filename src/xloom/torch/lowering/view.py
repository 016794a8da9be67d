"""Views: the same elements under another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xloom.torch.lowering.graph import Graph
from xloom.torch.lowering.registry import lowers


def resolved(sizes: Sequence[int], count: int) -> list[int]:
    """Sizes with -1 replaced by what is left of `count` elements."""
    known = math.prod(s for s in sizes if s != -1)
    return [count // max(known, 1) if s == -1 else s for s in sizes]


@lowers("aten.view.default", "aten._unsafe_view.default")
def view(g: Graph, x, size):
    """x under other dimensions."""
    return g.reshape_to(x, resolved(size, x.shape.size))


@lowers("aten.expand.default")
def expand(g: Graph, x, size, implicit):
    """x repeated; -1 keeps a dimension's size."""
    start = len(size) - x.shape.rank
    return g.expand(x, [x.shape.dims[k - start] if s == -1 else s for k, s in enumerate(size)])
