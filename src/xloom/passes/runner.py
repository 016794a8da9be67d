"""`run_passes`: a pipeline over a module, with hooks between the passes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from xloom.checks import is_checked
from xloom.hlo.module import Module
from xloom.passes.base import Pass, pin_roots
from xloom.passes.compare import Compare
from xloom.passes.hooks import Dump, Hook, Verify
from xloom.passes.pipeline import parse_pipeline
from xloom.passes.schedule import restore_schedule
from xloom.trace import active as active_trace
from xloom.trace import span


@dataclass(frozen=True)
class PassRun:
    """What one pass did: whether it changed the module, in how many seconds, and the instructions left after it."""

    pass_: Pass
    changed: bool
    seconds: float
    instructions: int


def run_passes(
    module: Module,
    passes: str | Sequence[Pass],
    *,
    verify: bool = True,
    dump: str | Path | None = None,
    compare: bool | Compare = False,
    hooks: Sequence[Hook] = (),
) -> list[PassRun]:
    """Runs pipeline text (or passes) over `module`, in place; one record per pass, with its time.

    Between passes: `verify` checks the module, `dump` writes it to a directory, `compare` checks its values against
    those before on random arguments, as $XLOOM_CHECK may ask for, too; `hooks` come last. A scheduled module stays
    scheduled. Raises PassError for a malformed pipeline, a pass that cannot do what it was asked, and one that left a
    wrong module.
    """
    pipeline = parse_pipeline(passes) if isinstance(passes, str) else list(passes)
    active: list[Hook] = [Dump(Path(dump))] if dump is not None else []
    active += [Verify()] if verify else []
    if compare:
        active.append(compare if isinstance(compare, Compare) else Compare())
    elif is_checked("passes"):
        active += [Verify(), Compare(rounding=True, strict=False)]
    active += hooks
    pin_roots(module)
    for hook in active:
        hook.start(module)
    runs = []
    present = _opcodes_of(module)
    for number, pass_ in enumerate(pipeline, 1):
        if pass_.opcodes is not None and present.isdisjoint(pass_.opcodes):
            runs.append(PassRun(pass_, False, 0.0, sum(map(len, module.computations))))
            continue
        start = time.perf_counter()
        with nullcontext() if active_trace() is None else span(str(pass_), "compile"):
            changed = pass_.run(module)
        if changed:
            present = _opcodes_of(module)
        if changed and module.config.is_scheduled:
            restore_schedule(module)
        seconds = time.perf_counter() - start
        runs.append(PassRun(pass_, changed, seconds, sum(map(len, module.computations))))
        for hook in active if changed else ():
            hook.after(module, pass_, number)
    return runs


def _opcodes_of(module: Module) -> set[str]:
    return {instruction.opcode for computation in module.computations for instruction in computation}
