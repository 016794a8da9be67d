"""The program that converts bytecode in a process of its own: reads it from its input, writes a HloModuleProto.

Where there is an error, it writes that as JSON instead, and ends with status 1.
"""

from __future__ import annotations

import json
import sys

from xloom.errors import ParseError
from xloom.stablehlo.conversion import proto_of


def _main() -> None:
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
