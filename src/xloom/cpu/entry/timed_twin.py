"""Programs that were compiled before a trace began: the same with a clock, compiled when they first run in one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

from xloom.cpu.runtime.executable import Executable
from xloom.hlo.module import Module
from xloom.trace import span

if TYPE_CHECKING:
    from xloom.cpu.entry.profiling import TimedExecutable

_WHY = "anew, with a clock around each kernel: the program is older than the trace"
_CHANGED = "not anew: the module was changed since the program was compiled, whose kernels the trace does not show"


class TimedTwin:
    """Called, gives what runs in place of an executable in a trace: the same object each time, or None."""

    def __init__(
        self, executable: Executable, compile: Callable[..., TimedExecutable], key_of: Callable[[Module], str | None]
    ):
        """`compile` takes what its span in the trace is to say."""
        self._of = ref(executable)  # which has this
        self._compile, self._key_of = compile, key_of
        self._lock = threading.Lock()
        self._found: list[TimedExecutable | None] = []

    def __call__(self) -> TimedExecutable | None:
        """Compiles it the first time; None where the module is no more what was compiled."""
        with self._lock:  # devices are threads, and begin together
            if not self._found:
                self._found.append(self._made())
            return self._found[0]

    def _made(self) -> TimedExecutable | None:
        executable: Any = self._of()
        module = executable.module
        if executable.key is not None and self._key_of(module) != executable.key:
            with span(module.name, "compile", note=_CHANGED):
                return None
        made = self._compile(note=_WHY)
        made.outfeed = executable.outfeed
        return made
