"""Results as a bar chart, written as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import groupby
from xml.sax.saxutils import escape

from benchmarks.figures import factor
from benchmarks.result import Result

_WIDTH = 860
_LABELS = 230  # width of the names
_MARGIN = 70  # room for the number at the end of a bar
_ROW = 16
_BAR = 10
_HEAD = 64
_GAP = 26  # above a family, for its name
_TICKS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 25.0, 100.0)

# plain rules, not CSS variables, which few programs but browsers know
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 16px; font-weight: 600 }
  .family { font-weight: 600 }
  .quiet { fill: #656d76 }
  .end { text-anchor: end }
  .middle { text-anchor: middle }
  .ground { fill: #ffffff }
  .tick { stroke: #d8dee4 }
  .one { stroke: #656d76; stroke-width: 1.5 }
  .fast { fill: #0f766e }
  .slow { fill: #c2410c }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .quiet { fill: #8d96a0 }
    .ground { fill: #0d1117 }
    .tick { stroke: #30363d }
    .one { stroke: #8d96a0 }
    .fast { fill: #2dd4bf }
    .slow { fill: #fb923c }
  }
"""


def chart(results: list[Result]) -> str:
    """A bar a program from 1 to its ratio, on a logarithmic scale."""
    ratios = [r.ratio for r in results if r.status == "ok"]
    low, high = _limits(ratios)

    def x(ratio: float) -> float:
        span = math.log(high / low)
        return _LABELS + _MARGIN + (_WIDTH - _LABELS - 2 * _MARGIN) * math.log(ratio / low) / span

    rows: list[str] = []
    y = _HEAD
    for family, group in groupby(results, key=lambda r: r.family):
        y += _GAP
        rows.append(text(16, y - 5, family, "family"))
        for result in group:
            rows += _row(result, y, x)
            y += _ROW
    height = y + 16
    ticks = [t for t in _TICKS if low <= t <= high]
    axis = [
        line
        for t in ticks
        for line in (
            f'<line class="{"one" if t == 1 else "tick"}" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{_HEAD}" y2="{y}"/>',
            text(x(t), _HEAD - 6, f"{t:g}×", "quiet middle"),
        )
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" height="{height}" role="img" aria-label="XLA time over xloom time a program">',
            f"<style>{STYLE}</style>",
            f'<rect class="ground" width="{_WIDTH}" height="{height}"/>',
            text(16, 26, "XLA:CPU time / xloom time", "title"),
            text(_WIDTH - 16, 26, "to the right of 1×, xloom is faster", "quiet end"),
            *axis,
            *rows,
            "</svg>",
            "",
        ]
    )


def _limits(ratios: list[float]) -> tuple[float, float]:
    """Ticks that hold every ratio, and 1 with some room about it."""
    low = max((t for t in _TICKS if t <= min([*ratios, 0.5])), default=min([*ratios, 0.5]))
    high = min((t for t in _TICKS if t >= max([*ratios, 2.0])), default=max([*ratios, 2.0]))
    return low, high


def _row(result: Result, y: float, x: Callable[[float], float]) -> list[str]:
    name = result.name.split("/", 1)[1]
    middle = y + _BAR - 1
    label = text(_LABELS, middle, name, "end")
    if result.status != "ok":
        return [label, text(x(1.0) + 6, middle, result.status, "quiet")]
    start, end = sorted((x(1.0), x(result.ratio)))
    fast = result.ratio >= 1.0
    bar = (
        f'<rect class="{"fast" if fast else "slow"}" x="{start:.1f}" y="{y}" width="{max(end - start, 1.0):.1f}" '
        f'height="{_BAR}" rx="1.5"><title>{escape(result.name)} {factor(result.ratio)}</title></rect>'
    )
    number = (
        text(end + 5, middle, factor(result.ratio), "")
        if fast
        else text(start - 5, middle, factor(result.ratio), "end")
    )
    return [label, bar, number]


def text(x: float, y: float, words: str, kind: str) -> str:
    """Words at a place; `kind` names classes of the style."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'
