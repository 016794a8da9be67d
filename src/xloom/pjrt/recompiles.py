"""Why a program of the same name is compiled again: how it differs from the nearest before. `XLOOM_LOG=recompiles`."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict, deque
from typing import NamedTuple

from xloom.environment import LOG
from xloom.hlo.instruction import Instruction
from xloom.hlo.lazy_module import declaration_of
from xloom.hlo.module import Module
from xloom.hlo.stack_frames import source_line
from xloom.process_identity import log_prefix

KEPT = 1000
"""How many reports are remembered, and of how many programs of one name the shapes, the latest ones."""


class _Signature(NamedTuple):
    """What callers see of a program."""

    parameters: tuple[str, ...]
    results: str
    devices: int

    @staticmethod
    def of(declaration: Module) -> _Signature:
        config = declaration.config
        shapes = tuple(p.shape.to_text(layout=False) for p in declaration.entry.parameters)
        root = declaration.entry.root.shape.to_text(layout=False)
        return _Signature(shapes, root, config.replica_count * config.num_partitions)

    def likeness(self, other: _Signature) -> tuple[bool, int, bool]:
        """How alike two are: the number of parameters, then of those that are the same, then the results."""
        same = sum(a == b for a, b in zip(self.parameters, other.parameters, strict=False))
        return len(self.parameters) == len(other.parameters), same, self[1:] == other[1:]


_known: defaultdict[str, deque[_Signature]] = defaultdict(lambda: deque(maxlen=KEPT))
_reports: deque[str] = deque(maxlen=KEPT)
_lock = threading.Lock()


def recompiles() -> list[str]:
    """The reports since the start, oldest first: of each program of a name that was compiled before."""
    return list(_reports)


def note(module: Module) -> None:
    """Says why a module is compiled, if one of its name was before; and remembers it."""
    declaration = declaration_of(module)
    signature = _Signature.of(declaration)
    with _lock:
        before = _known[declaration.name]
        report = _explained(declaration, signature, before) if before else ""
        before.append(signature)
        if report:
            _reports.append(report)
    if report and "recompiles" in LOG.text.split(","):
        for line in report.splitlines():
            print(f"{log_prefix()}xloom.pjrt: compile     {line}", file=sys.stderr)


def _explained(declaration: Module, now: _Signature, known: deque[_Signature]) -> str:
    before = max(reversed(known), key=now.likeness)
    lines = [f"{declaration.name} is compiled for the {_ordinal(len(known) + 1)} time"]
    if before == now:
        return (
            f"{lines[0]}\n  shapes and dtypes are those of before: a function made anew (jax.jit of a lambda), "
            "static arguments or constants that differ, another function of the same name, or jax.clear_caches()"
        )
    if before.devices != now.devices:
        lines.append(f"  it is for {now.devices} devices, before for {before.devices}")
    if len(before.parameters) != len(now.parameters):
        counts = ", ".join(sorted({str(len(each.parameters)) for each in known}))
        lines.append(
            f"  it has {len(now.parameters)} parameters, the others had {counts}: another function of the same name, "
            "another structure of the arguments, or None where there was an array"
        )
        return "\n".join(lines)
    pairs = zip(declaration.entry.parameters, before.parameters, now.parameters, strict=True)
    changed = [(k, p, a, b) for k, (p, a, b) in enumerate(pairs) if a != b]
    lines += [f"  argument {k}{_place(p)} is {b}, nearest before {a}" for k, p, a, b in changed]
    if changed:
        lines.append("  pad or bucket sizes that change; cast dtypes that change before the call")
    elif before.results != now.results:
        lines.append(f"  the result is {now.results}, before {before.results}: static arguments or code differ")
    return "\n".join(lines)


def _place(parameter: Instruction) -> str:
    name = parameter.metadata.op_name or source_line(parameter)
    return f" ({name})" if name else ""


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
