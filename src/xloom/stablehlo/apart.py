"""Conversion in a process of its own, which jaxlib may end: strings that are not UTF-8 make it abort."""

from __future__ import annotations

import json
import subprocess
import sys

from xloom.errors import ParseError, Span

_SECONDS = 600
_PROGRAM = "xloom.stablehlo.conversion_process"


def converted_apart(program: bytes, file: str) -> bytes:
    """The HloModuleProto of a program. Raises ParseError, also where jaxlib ends the process that converts it."""
    command = [sys.executable, "-m", _PROGRAM, file]
    try:
        done = subprocess.run(command, input=program, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise ParseError(f"jaxlib has not converted the bytecode in {_SECONDS} s", where=file) from None
    if done.returncode == 0:
        return done.stdout
    try:
        said = json.loads(done.stdout)
    except ValueError:
        raise ParseError("damaged bytecode, which ends jaxlib's process", where=file) from None
    span = Span(*said["span"]) if said["span"] else None
    raise ParseError(said["message"], where=said["where"], span=span, hint=said["hint"])
