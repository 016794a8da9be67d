"""The method log: `XLOOM_LOG=pjrt` says on standard error what is called, on which object, and what it gives.

PJRT_Client_Compile(client=Client#0, program=mlir, ...)
  Client#0.compile(jit_f, CompileOptions(...)) -> LoadedExecutable#0
  -> executable=LoadedExecutable#0
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from functools import wraps
from typing import Any
from weakref import ref

import numpy as np

from xloom.environment import LOG
from xloom.hlo.module import Module
from xloom.process_identity import log_prefix

_LONGEST = 100


def is_enabled() -> bool:
    """Whether the environment asks for it."""
    return "pjrt" in LOG.text.split(",")


class MethodLog:
    """Calls as text, those inside a call indented."""

    def __init__(self, write: Callable[[str], object]):
        self._write = write
        self._labels: dict[int, tuple[ref[Any], str]] = {}
        self._counts: Counter[str] = Counter()
        self._local = threading.local()
        self._lock = threading.Lock()
        self._classes: frozenset[type] = frozenset()

    def label(self, value: Any) -> str:
        """The class of an object and which of them it is, in the order in which they were seen."""
        with self._lock:
            held, label = self._labels.get(id(value), (None, ""))
            if held is None or held() is not value:
                name = type(value).__name__
                label = f"{name}#{self._counts[name]}"
                self._labels[id(value)] = ref(value), label
                self._counts[name] += 1
        return label

    def begin(self, call: str) -> None:
        """A call, whose end is told by `end`."""
        open_calls = self._open()
        self._flush()
        open_calls.append((call, False))

    def end(self, result: str) -> None:
        """What the last call that began gives, or nothing."""
        open_calls = self._open()
        call, is_written = open_calls.pop()
        indent = "  " * len(open_calls)
        arrow = f" -> {result}" if result else ""
        if not is_written:
            self._write(f"{indent}{call}{arrow}\n")
        elif result:
            self._write(f"{indent} {arrow}\n")

    def _flush(self) -> None:
        """Writes the calls that the next is inside of."""
        open_calls = self._open()
        for depth, (call, is_written) in enumerate(open_calls):
            if not is_written:
                self._write("  " * depth + call + "\n")
                open_calls[depth] = (call, True)

    def _open(self) -> list[tuple[str, bool]]:
        if not hasattr(self._local, "calls"):
            self._local.calls = []
        return self._local.calls

    def logged(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The method, which tells of each call."""

        @wraps(function)
        def call(this: Any, *arguments: Any, **named: Any) -> Any:
            shown = [self.text(a) for a in arguments] + [f"{k}={self.text(v)}" for k, v in named.items()]
            self.begin(f"{self.label(this)}.{name}({', '.join(shown)})")
            try:
                result = function(this, *arguments, **named)
            except BaseException as error:
                self.end(f"{type(error).__name__}: {error}")
                raise
            self.end("" if result is None else self.text(result))
            return result

        return call

    def text(self, value: Any) -> str:
        """A value in few words."""
        if isinstance(value, Module):
            return value.name
        if isinstance(value, np.ndarray):
            return f"{value.dtype}{list(value.shape)}"
        if isinstance(value, bytes):
            return f"<{len(value)} bytes>"
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self.text, value))}]"
        ours = type(value).__module__.startswith("xloom.pjrt") and type(value).__repr__ is object.__repr__
        if ours or type(value) in self._classes:
            return self.label(value)
        text = repr(value)
        return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."

    def install(self, classes: Iterable[type], labelled: Iterable[type]) -> None:
        """Logs the public methods of the classes; objects of these and of others are named by labels."""
        found = list(classes)
        self._classes = frozenset([*found, *labelled])
        for kind in found:
            for name, value in list(vars(kind).items()):
                if callable(value) and not name.startswith("_") and not isinstance(value, type | staticmethod):
                    setattr(kind, name, self.logged(name, value))


method_log = MethodLog(lambda line: sys.stderr.write(log_prefix() + line))
"""The one of this process."""
