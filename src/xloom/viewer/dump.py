"""The modules in a folder of dumps, in the order in which a compiler made them of each other."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import xloom
from xloom.errors import XloomError
from xloom.hlo.module import Module

_STEP = re.compile(r"(?P<number>\d+)-(?P<title>.+)\.hlo")
"""`01-dce.hlo`: a step of `xloom opt --dump`."""
_STAGE = re.compile(
    r"(?P<module>module_\d+\..+?)\.(?P<title>[^.]*(?:before|after)_optimizations|\d+\..+)\.(?:txt|hlo\.pb)"
)
"""`module_0001.jit_f.before_optimizations.txt`, `module_0001.jit_f.0002.simplification.after_dce.before_cse.txt`: as
`xla_dump_to` names them."""

_APART = "buffer-assignment", "memory-usage", "live-range", "dot"


def read_dump(folder: str | Path, module: str = "") -> list[tuple[str, Module]]:
    """The modules of one program with the title of each, from the first to the last.

    `module` is a part of the program's name, for folders with several. Raises XloomError for a folder without one, or
    with several.
    """
    programs: dict[str, dict[tuple[int, str], Path]] = defaultdict(dict)
    for path in sorted(Path(folder).iterdir()):
        step, stage = _STEP.fullmatch(path.name), _STAGE.fullmatch(path.name)
        if step:
            programs[""][int(step["number"]), step["title"]] = path
        elif stage and not any(part in path.name for part in _APART):
            programs[stage["module"]][_order(stage["title"]), stage["title"]] = path  # a text goes over a proto
    found = {name: steps for name, steps in programs.items() if module in name}
    if not found:
        raise XloomError(
            f"{folder} has no program{f' with {module!r} in its name' if module else ''}",
            hint="a dump is what `xloom opt --dump`, or XLA_FLAGS=--xla_dump_to, writes",
        )
    if len(found) > 1:
        names = ", ".join(name for name in list(found)[:8])
        raise XloomError(f"{folder} has {len(found)} programs: {names}", hint="name one: --module NAME")
    (steps,) = found.values()
    return [(title, xloom.load(steps[number, title])) for number, title in sorted(steps)]


def _order(title: str) -> int:
    """Before all passes, each by its number, after all."""
    if title.endswith("before_optimizations"):
        return -1
    return 1 << 30 if title.endswith("after_optimizations") else int(title.split(".")[0])
