"""MLIR's error texts as ParseErrors with a place."""

from __future__ import annotations

import re

from xloom.errors import ParseError, Span

# `error: "name":3:4: message` from the parser, `name:3:4: error: message` and `loc("name":3:4): message` from others
_PLACE = re.compile(r'(?:loc\()?"([^"\n]*)":(\d+):(\d+)\)?: *|(?:^|\s)([^\s":]+):(\d+):(\d+): *', re.M)
_UNNAMED = ("-", "<unknown>")


def parse_error(error: Exception, program: str | bytes, file: str) -> ParseError:
    """What an exception of jaxlib's says, with line, column and source line where it tells them."""
    text = str(error)
    first = next((line for line in text.splitlines() if "error: " in line), text.partition("\n")[0])
    place = _PLACE.search(first)
    message = first.rpartition("error: ")[2] or type(error).__name__
    message = _PLACE.sub("", message).strip()
    if place is None:
        return ParseError(message, where=file)
    name, line, column = (place[1], place[2], place[3]) if place[2] else (place[4], place[5], place[6])
    if int(line) == 0:
        return ParseError(message, where=file)
    if name not in _UNNAMED:  # the program says where it comes from
        return ParseError(message, span=Span(int(line), int(column), "", name))
    source = program.splitlines() if isinstance(program, str) else []
    known = source[int(line) - 1] if int(line) <= len(source) else ""
    return ParseError(message, span=Span(int(line), int(column), known, file))
