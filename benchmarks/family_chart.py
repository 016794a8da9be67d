"""One picture of the benchmarks, for the README: a bar a family of programs, from the table of the results page.

python -m benchmarks.family_chart     makes docs/pictures/speed.svg of benchmarks/RESULTS.md
"""

from __future__ import annotations

import math
import re
from pathlib import Path

from benchmarks.chart import STYLE, text

ROOT = Path(__file__).parent.parent
PAGE, PICTURE = ROOT / "benchmarks" / "RESULTS.md", ROOT / "docs" / "pictures" / "speed.svg"
_WIDTH, _LABELS, _RIGHT, _HEAD, _ROW, _BAR = 720, 130, 60, 62, 22, 14


def family_chart(page: str) -> str:
    """The picture of a results page's text."""
    ratios = {name: float(ratio) for name, ratio in re.findall(r"^\| ([a-z]+) \| ([\d.]+) \|$", page, re.M)}
    (mean,) = re.findall(r"Run time: XLA's is ([\d.]+) times ours", page)
    (count,) = re.findall(r"(\d+) of \d+ programs compile", page)
    (processor,) = re.findall(r"Machine: (.*?), at best", page)
    low, high = min([1.0, *ratios.values()]), max([2.0, *ratios.values()])

    def x(ratio: float) -> float:
        return _LABELS + (_WIDTH - _LABELS - _RIGHT) * math.log(ratio / low) / math.log(high / low)

    rows = []
    ranked = sorted(ratios.items(), key=lambda each: -each[1])
    for k, (name, ratio) in enumerate(ranked):
        y = _HEAD + k * _ROW
        start, end = sorted((x(1.0), x(ratio)))
        kind = "fast" if ratio >= 1 else "slow"
        rows.append(text(_LABELS - 8, y + _BAR - 3, name, "end"))
        rows.append(
            f'<rect class="{kind}" x="{start:.1f}" y="{y}" width="{max(1.0, end - start):.1f}" height="{_BAR}" rx="2"/>'
        )
        rows.append(text(end + 6, y + _BAR - 3, f"{ratio:g}×", ""))
    bottom = _HEAD + len(ranked) * _ROW
    label = f"XLA:CPU time over xloom time, {count} programs in {len(ratios)} families"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 14}" width="{_WIDTH}" '
            f'height="{bottom + 14}" role="img" aria-label="{label}">',
            f"<style>{STYLE}</style>",
            f'<rect class="ground" width="{_WIDTH}" height="{bottom + 14}"/>',
            text(16, 24, f"How many times as fast as XLA:CPU: {mean}×, the mean of {count} programs", "title"),
            text(16, 44, f"{processor}; geometric means of families, the scale is logarithmic", "quiet"),
            f'<line class="one" x1="{x(1.0):.1f}" x2="{x(1.0):.1f}" y1="{_HEAD - 6}" y2="{bottom}"/>',
            *rows,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(family_chart(PAGE.read_text("utf-8")), "utf-8")
