"""The page of what tuned constants decide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.tuned_constants import NOT_MEASURED, NOT_TUNED, TUNED

_FASTER = 0.95

_HEAD = """# What tuned constants decide

`make bench-constants [ONLY=name,...]` writes this page from the rows of [tuned_constants.py](tuned_constants.py). The
programs, of which those called `own/` are in [constant_programs.py](constant_programs.py), are compiled with a constant
as it is and with other values, half and double unless the row names some: in processes of their own, without a
compilation cache. They run, or are compiled, in turn. Numbers are the shortest time with the other value over that with
the constant's own: above 1, its own value is better. "Again" is its own value in other processes: what differs from 1
there is chance. In bold is what was more than 5 % faster, and than "again", by the median of three measurements. With
values that are not listed the program's LLVM IR is the same.
"""


def is_faster(ratios: Mapping[str, float], label: str) -> bool:
    """True for another value that is better than the constant's own, and by more than chance."""
    return label != "again" and ratios[label] < _FASTER * min(1, ratios["again"])


def page(results: Mapping[str, Mapping[str, Any]]) -> str:
    """In Markdown, of what `constants.json` holds."""
    missing = [row.full for row in TUNED if row.full not in results]
    apart = {**NOT_MEASURED, **({"not yet": tuple(missing)} if missing else {})}
    counts = (
        f"{len(TUNED) - len(missing)} constants are measured here, {_count(apart)} tuned ones are not, "
        f"{_count(NOT_TUNED)} are not tuned."
    )
    lines = [_HEAD, counts, ""]
    for kind in ("run", "compile"):
        lines += [
            f"## Time to {kind}",
            "",
            "| constant | value | program | other values | again |",
            "|---|---|---|---|---|",
        ]
        for row in TUNED:
            if row.full in results and kind in row.kinds:
                lines += _rows(row.full, results[row.full], kind)
        lines.append("")
    lines += ["## Tuned, and not measured", "", *_names(apart), "", "## Not tuned", "", *_names(NOT_TUNED)]
    return "\n".join(lines) + "\n"


def _count(names: Mapping[str, tuple[str, ...]]) -> int:
    return sum(map(len, names.values()))


def _names(names: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for reason, constants in names.items():
        yield f"- {reason}: " + ", ".join(f"`{name}`" for name in constants)


def _rows(name: str, result: Mapping[str, Any], kind: str) -> Iterator[str]:
    head = f"| `{name}` | {result['value']}"
    for program, kinds in result["programs"].items():
        ratios = kinds.get(kind, {}) if isinstance(kinds, dict) else {}
        cells = ", ".join(_cell(ratios, label) for label in ratios if label != "again")
        again = f"{ratios['again']:.2f}" if ratios else ""
        yield f"{head} | {program} | {cells or (kinds if isinstance(kinds, str) else 'decides nothing')} | {again} |"
        head = "| | "


def _cell(ratios: Mapping[str, float], label: str) -> str:
    text = f"{label}: {ratios[label]:.2f}"
    return f"**{text}**" if is_faster(ratios, label) else text
