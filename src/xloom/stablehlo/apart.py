"""Conversion in a process of its own, which jaxlib may end: strings that are not UTF-8 make it abort."""

from __future__ import annotations

import json
import subprocess
import sys

from xloom.errors import ParseError, Span

_SECONDS = 600


def converted_apart(program: bytes, file: str) -> bytes:
    """The HloModuleProto of a program. Raises ParseError, also where jaxlib ends the process that converts it."""
    command = [sys.executable, "-m", "xloom.stablehlo.apart", file]
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


def _main() -> None:
    from xloom.stablehlo.convert import proto_of

    try:
        proto = proto_of(sys.stdin.buffer.read(), sys.argv[1])
    except ParseError as error:
        span = error.span and [error.span.line, error.span.column, error.span.source_line, error.span.file]
        said = {"message": error.message, "where": error.where, "span": span, "hint": error.hint}
        sys.stdout.write(json.dumps(said))
        sys.exit(1)
    sys.stdout.buffer.write(proto)


if __name__ == "__main__":
    _main()
