"""Where the time of a compilation goes: `xloom opt --explain compile-time`."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

from xloom.codegen.buffers.assigner import assigned
from xloom.codegen.schedule.thunks import roots_of, scheduled
from xloom.cpu.entry.emitted_program import EmittedProgram
from xloom.cpu.lower import lower
from xloom.cpu.prepare import prepared
from xloom.errors import XloomError, near
from xloom.hlo.module import Module
from xloom.llvm import jit
from xloom.llvm.target import Target, process_target
from xloom.trace import trace

T = TypeVar("T")
_SHOWN = 12
"""Passes and kernels, those that take the longest."""
_ENTRY = "the entry function"


def compile_times_text(module: Module, names: Sequence[str] = (), target: Target | None = None) -> str:
    """Compiles a program anew, one thing after another on one thread, and says how long each took.

    All stages, the slowest passes, and LLVM's time for the slowest kernels; or only the passes and the kernels of
    instructions called `names`. Nothing is taken from a cache or a library, as compilations otherwise do.
    Raises XloomError for a name of neither, LoweringError for what has no native code.
    """
    target = target or process_target()
    stages: dict[str, float] = {}

    def timed(stage: str, run: Callable[[], T]) -> T:
        start = time.perf_counter()
        found = run()
        stages[stage] = time.perf_counter() - start
        return found

    with trace() as taken:
        ready = timed("passes", lambda: prepared(module, target=target))
    passes: dict[str, list[float]] = defaultdict(list)
    for span in taken.spans("compile"):
        passes[span["name"]].append(span["dur"] / 1e6)
    schedule = timed("fusion and schedule", lambda: scheduled(ready.entry))
    assignment = timed("memory", lambda: assigned(schedule, target))
    program = timed("LLVM IR", lambda: lower(assignment))
    kernels = _kernels(program)
    seconds: dict[str, float] = {}
    start = time.perf_counter()
    for name, (text, pipeline) in kernels.items():
        begin = time.perf_counter()
        jit.made_anew(text, pipeline, target)
        seconds[name] = time.perf_counter() - begin
    stages["machine code by LLVM"] = time.perf_counter() - start
    made = _makers(program)
    if names:
        return _asked(names, passes, seconds, made)
    lines = [*_table("stage", stages), "", *_table("pass", {p: sum(t) for p, t in passes.items()}), ""]
    shown = {
        f"{', '.join(made.get(name, [])) or name}, {len(kernels[name][0])} characters": s for name, s in seconds.items()
    }
    return "\n".join([*lines, *_table("LLVM's time for the kernel of", shown)]) + "\n"


def _kernels(program: EmittedProgram) -> dict[str, tuple[str, jit.PassPipeline]]:
    """LLVM IR and pipeline of each module, by name."""
    found = {name: (module.text, module.pipeline) for name, module in program.modules.items()}
    return {**found, _ENTRY: (program.main, program.main_pipeline)}


def _makers(program: EmittedProgram) -> dict[str, list[str]]:
    """By the name of a module, the instructions that it computes; those of equal kernels together."""
    found: dict[str, list[str]] = defaultdict(list)
    for thunk, code in program.code.items():
        found[code.module_name or _ENTRY].extend(f"%{i.name}" for i in roots_of(thunk))
    return found


def _asked(
    names: Sequence[str], passes: dict[str, list[float]], seconds: dict[str, float], made: dict[str, list[str]]
) -> str:
    lines = []
    for name in names:
        runs = [t for p, times in passes.items() if p.split("{")[0] == name for t in times]
        at = [module for module, makers in made.items() if f"%{name.removeprefix('%')}" in makers]
        if runs:
            lines.append(f"pass {name}: {_text(sum(runs))} in {len(runs)} runs")
        lines += [f"kernel of {', '.join(made[module])}: {_text(seconds[module])} of LLVM's" for module in at]
        if not runs and not at:
            known = [*(p.split("{")[0] for p in passes), *(m for makers in made.values() for m in makers)]
            raise XloomError(f"no pass and no kernel of {name}", hint=near(name, known) or "leave the name out for all")
    return "\n".join(lines) + "\n"


def _table(title: str, seconds: dict[str, float]) -> list[str]:
    total = sum(seconds.values())
    rows = sorted(seconds.items(), key=lambda row: -row[1])
    lines = [f"{_text(s):>10}  {s / max(total, 1e-12):5.1%}  {name}" for name, s in rows[:_SHOWN]]
    if len(rows) > _SHOWN:
        rest = sum(s for _, s in rows[_SHOWN:])
        lines.append(f"{_text(rest):>10}  {rest / max(total, 1e-12):5.1%}  {len(rows) - _SHOWN} more")
    return [f"{_text(total):>10}         {title}", *lines]


def _text(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
