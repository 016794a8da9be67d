"""Cost against size as small charts side by side, both axes logarithmic, written as SVG."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.chart import STYLE, text
from benchmarks.figures import duration

_WIDTH, _HEIGHT = 280, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 34, 36
_COLUMNS = 3
_HEAD = 48
_LINES = """
  .xla { fill: none; stroke: #c2410c; stroke-width: 2 }
  .ours { fill: none; stroke: #0f766e; stroke-width: 2 }
"""


@dataclass(frozen=True)
class Curve:
    """Seconds of both sides by size."""

    name: str
    unit: str
    points: list[tuple[int, float, float]]  # size, XLA's, ours


def curves(rows: list[Curve]) -> str:
    """A panel for each."""
    lines = -(-len(rows) // _COLUMNS)
    width, height = _COLUMNS * _WIDTH, _HEAD + lines * _HEIGHT
    panels = [_panel(curve, k % _COLUMNS * _WIDTH, _HEAD + k // _COLUMNS * _HEIGHT) for k, curve in enumerate(rows)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="Cost against size">',
            f"<style>{STYLE}{_LINES}</style>",
            f'<rect class="ground" width="{width}" height="{height}"/>',
            text(16, 26, "Cost against size", "title"),
            f'<path class="ours" d="M{width - 220},22h24"/>',
            text(width - 190, 26, "xloom", ""),
            f'<path class="xla" d="M{width - 120},22h24"/>',
            text(width - 90, 26, "XLA:CPU", ""),
            *panels,
            "</svg>",
            "",
        ]
    )


def _panel(curve: Curve, left: int, top: int) -> str:
    sizes = [math.log(p[0]) for p in curve.points]
    costs = [math.log(c) for p in curve.points for c in p[1:]]
    low, high = min(costs), max(costs)

    def x(size: float) -> float:
        share = (math.log(size) - min(sizes)) / max(1e-9, max(sizes) - min(sizes))
        return left + _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(cost: float) -> float:
        share = (math.log(cost) - low) / max(1e-9, high - low)
        return top + _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [text(left + _LEFT, top + 20, curve.name, "family")]
    for power in range(math.ceil(low / math.log(10)), math.floor(high / math.log(10)) + 1):
        at = y(10.0**power)
        parts.append(f'<path class="tick" d="M{left + _LEFT},{at:.1f}H{left + _WIDTH - _RIGHT}"/>')
        parts.append(text(left + _LEFT - 6, at + 4, duration(10.0**power), "quiet end"))
    for side, kind in ((1, "xla"), (2, "ours")):
        path = "L".join(f"{x(p[0]):.1f},{y(p[side]):.1f}" for p in curve.points)
        parts.append(f'<path class="{kind}" d="M{path}"/>')
    first, last = curve.points[0][0], curve.points[-1][0]
    base = top + _HEIGHT - _BOTTOM + 18
    parts.append(text(left + _LEFT, base, f"{first:,}", "quiet"))
    parts.append(text(left + _WIDTH - _RIGHT, base, f"{last:,} {curve.unit}", "quiet end"))
    return "\n".join(parts)
