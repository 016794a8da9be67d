"""The machine code of a program's modules, made while the rest of the program is still being written."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self

from xloom.llvm.jit import object_code
from xloom.llvm.module_partitioning import parts_of
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.shared_setting import SharedSetting
from xloom.llvm.target import Target
from xloom.trace import span

_SWITCH_SECONDS = 5e-4
"""After so long a thread lets others run Python. By Python's own 5 ms, each of a module's few calls of LLVM would end
with such a wait for the thread that writes the next ones."""


def _switch_within(seconds: float) -> Callable[[], None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, seconds))
    return partial(sys.setswitchinterval, before)


_switching = SharedSetting(_switch_within)


class ObjectFiles:
    """The object files of a program's modules, made by up to so many threads, from the moment that each is added.

    All are for one target. A module of several long functions has several.

    Used in a `with`, whose end waits for what has begun.
    """

    def __init__(self, threads: int, target: Target):
        self._threads, self._target = threads, target
        self._helpers: list[threading.Thread] = []
        self._waiting: list[tuple[int, str, PassPipeline]] = []
        self._objects: list[bytes] = []
        self._failures: list[BaseException] = []
        self._change = threading.Condition()
        self._open = True
        self._switching = _switching.of(_SWITCH_SECONDS)

    def __enter__(self) -> Self:
        self._switching.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._switching.__exit__(*error)
        with self._change:
            self._waiting.clear()
        self._join()

    def add(self, text: str, pipeline: PassPipeline, is_last: bool = False) -> None:
        """Has a module compiled, part by part, by this and other threads; the last one by those that there are.

        To begin a thread for it takes longer than most programs' last module, which is little but calls.
        """
        with self._change:
            for part in parts_of(text):
                self._waiting.append((len(self._objects), part, pipeline))
                self._objects.append(b"")
            self._change.notify_all()
        if len(self._helpers) < self._threads - 1 and not (is_last and len(self._waiting) < 2):
            helper = threading.Thread(target=self._help, name="xloom-llvm")
            self._helpers.append(helper)
            helper.start()

    def have(self, objects: Iterable[bytes]) -> None:
        """Object files that are made already."""
        with self._change:
            self._objects.extend(objects)

    def finished(self) -> list[bytes]:
        """The object files. Raises what a thread has raised."""
        while self._work(self._next(wait=False)):
            pass
        self._join()
        if self._failures:
            raise self._failures[0]
        return self._objects

    def _help(self) -> None:
        while self._work(self._next(wait=True)):
            pass

    def _next(self, wait: bool) -> tuple[int, str, PassPipeline] | None:
        """The largest module that is not begun: then no thread is left alone with one at the end."""
        with self._change:
            while wait and self._open and not self._waiting:
                self._change.wait()
            if not self._waiting:
                return None
            largest = max(range(len(self._waiting)), key=lambda k: len(self._waiting[k][1]))
            return self._waiting.pop(largest)

    def _work(self, module: tuple[int, str, PassPipeline] | None) -> bool:
        if module is None:
            return False
        number, text, pipeline = module
        try:
            with span("LLVM", "compile", characters=len(text), pipeline=pipeline.name):
                self._objects[number] = object_code(text, pipeline, self._target)
        except BaseException as error:
            self._failures.append(error)
        return True

    def _join(self) -> None:
        with self._change:
            self._open = False
            self._change.notify_all()
        for helper in self._helpers:
            helper.join()
