"""Runs a module of this package in a process of its own, so that a crash costs one result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent.parent


class ChildError(Exception):
    """The process ended without an answer."""


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Children that start inside the block have so many cores, which is what both compilers size their pools by."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:threads])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _environment(cache: str) -> dict[str, str]:
    """With xloom's machine code in `cache`, and without what would give one side another number of threads."""
    environment = {**os.environ, "XLOOM_CACHE_DIR": cache}
    environment.pop("XLOOM_NUM_THREADS", None)
    return environment


def run_child(
    arguments: list[str], cache: str, timeout: float, line: Callable[[dict[str, Any]], None] = lambda _: None
) -> dict[str, Any]:
    """The last line of JSON that `python -m ARGUMENTS` prints; `line` hears each.

    xloom keeps machine code in the folder `cache`.
    """
    last: dict[str, Any] = {}
    command = [sys.executable, "-m", *arguments]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=_ROOT, env=_environment(cache)
        ) as process,
    ):
        assert process.stdout is not None
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            process.kill()

        timer = threading.Timer(timeout, end)
        timer.start()
        try:
            for text in process.stdout:
                if text.startswith("{"):
                    last = json.loads(text)
                    line(last)
            status = process.wait()
        finally:
            timer.cancel()
            process.kill()
        if status == 0:
            return last
        if is_late.is_set():
            raise ChildError(f"took more than {timeout:.0f} s")
        errors.seek(0)
        raise ChildError(_cause(status, errors.read()))


def _cause(status: int, errors: str) -> str:
    lines = [x.strip() for x in errors.splitlines() if x.strip()]
    said = lines[-1] if lines else "nothing was said"
    return f"{signal.Signals(-status).name}: {said}" if status < 0 else said
