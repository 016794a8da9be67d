"""The processes of one side of a benchmark, all of them on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping

PATIENCE = 1800
"""Seconds after which processes are taken to hang."""


def _port() -> str:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return str(found.getsockname()[1])


def said(module: str, side: str, count: int, arguments: list[str], environment: Mapping[str, str]) -> list[str]:
    """Runs `module SIDE PROCESS COUNT PORT ARGUMENTS` as `count` processes; the lines that the first one prints.

    Raises SystemExit where one of them fails.
    """
    port = _port()
    children = [
        subprocess.Popen(
            [sys.executable, "-m", module, side, str(k), str(count), port, *arguments],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE if k == 0 else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for k in range(count)
    ]
    try:
        lines = children[0].communicate(timeout=PATIENCE)[0].splitlines()
        if any(child.wait(PATIENCE) for child in children):
            raise SystemExit(f"a process of {side} has failed: {module} {side}, of {count} processes")
    except subprocess.TimeoutExpired:
        raise SystemExit(f"the processes of {side} did not end within {PATIENCE} s") from None
    finally:
        for child in children:
            child.kill()
            child.wait()
    return lines
