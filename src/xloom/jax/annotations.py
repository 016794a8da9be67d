"""JAX's annotations of a program's time, steps among them, as spans of xloom's traces: `XLOOM_TRACE`, `xloom.trace`."""

from __future__ import annotations

import time
from typing import Any

from xloom.trace import active, watch

_OPEN = "_xloom_began"
_TOLD = "_xloom_told"


def trace_annotations() -> None:
    """Has `jax.profiler.TraceAnnotation` and `StepTraceAnnotation` tell of themselves, whenever a trace is taken."""
    from jax._src.profiler import TraceAnnotation

    base: Any = TraceAnnotation.__mro__[1]

    def initialize(self: Any, name: str, **details: Any) -> None:
        base.__init__(self, name, **details)
        setattr(self, _TOLD, (name, details))

    def enter(self: Any) -> Any:
        setattr(self, _OPEN, time.monotonic_ns())
        return base.__enter__(self)

    def leave(self: Any, *error: Any) -> Any:
        result = base.__exit__(self, *error)
        trace, told, began = active(), getattr(self, _TOLD, None), getattr(self, _OPEN, None)
        if trace is not None and told is not None and began is not None:
            name, details = told[0], {k: v for k, v in told[1].items() if k != "_r"}
            is_step = "_r" in told[1]
            shown = f"{name} {details['step_num']}" if is_step and "step_num" in details else name
            trace.add(shown, "step" if is_step else "annotation", began, time.monotonic_ns(), **details)
        return result

    methods = {"__init__": initialize, "__enter__": enter, "__exit__": leave}

    def switch(is_taken: bool) -> None:
        for name, method in methods.items():
            if is_taken:
                setattr(TraceAnnotation, name, method)
            elif name in vars(TraceAnnotation):
                delattr(TraceAnnotation, name)

    watch(switch)
