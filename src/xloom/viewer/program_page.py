"""`show`: a program as a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xloom.cpu.prepare import prepared
from xloom.errors import XloomError
from xloom.hlo.module import Module
from xloom.viewer.graph import InstructionTable, Strings, frames_of
from xloom.viewer.memory import plan
from xloom.viewer.page import Page
from xloom.viewer.profile import Profile
from xloom.viewer.states import States

COMPILED = "compiled"
"""The title of the state that is scheduled."""


def show(
    module: Module | Sequence[tuple[str, Module]],
    *,
    passes: bool = False,
    compiled: bool = True,
    profile: Profile | None = None,
    progress: Callable[[str], object] = lambda step: None,
) -> Page:
    """A page with the graph of a module, what the compiler makes of it, its schedule and its memory.

    Several modules, with a title each, are steps of one program. `passes` shows the program after each pass too;
    without `compiled` it is shown as it is. What cannot be compiled is shown too, and the page says why it can't.
    `progress` is told what is done next.
    """
    modules = [("program", module)] if isinstance(module, Module) else list(module)
    strings = Strings()
    table = InstructionTable(strings)
    states = States(table, passes)
    progress("reading")
    for title, each in modules:
        states.record(title, each)
    last = modules[-1][1]
    data: dict[str, Any] = {"name": last.name, "plan": None, "why_no_plan": "", "profile": None}
    if compiled:
        try:
            progress("passes")
            ready = prepared(last, hooks=[states])
            states.record(COMPILED, ready)
            progress("schedule")
            data["plan"] = plan(ready, strings)
        except XloomError as error:
            data["why_no_plan"] = f"{error.message}{f' (at {error.where})' if error.where else ''}"
    if profile is not None:
        data["profile"] = profile.data()
    progress("page")
    data["frames"] = frames_of(last, strings)
    data["states"] = states.states
    data["instructions"] = table.columns()
    data["shapes"] = table.shapes()
    data["strings"] = list(strings.numbers)
    return Page(last.name, data)
