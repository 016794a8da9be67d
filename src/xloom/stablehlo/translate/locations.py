"""MLIR's locations as metadata: the operation's name in its framework, and the Python stack that made it."""

from __future__ import annotations

import re

from xloom.hlo.attributes import Metadata, StackFrames

_STRING = r'"((?:[^"\\]|\\.)*)"'
_NAME = re.compile(rf"loc\({_STRING}[()]")
_FRAME = re.compile(rf"(?:{_STRING}\()?{_STRING}:(\d+):(\d+)(?: to (\d+)?:(\d+))?")
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)")


UNNAMED = "-"
"""How MLIR calls a text that it is not told the name of."""


class Locations:
    """Metadata by location, and the table of frames that they name, of a program read from `file`."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._known: dict[str, Metadata] = {}
        self._files: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._places: dict[tuple[int, int, int, int, int, int], int] = {}
        self._frames: dict[tuple[int, int], int] = {}

    def metadata(self, location: str) -> Metadata:
        """What a location, as MLIR prints it, says."""
        found = self._known.get(location)
        if found is None:
            found = self._known[location] = self._made(location)
        return found

    def frames(self) -> StackFrames | None:
        """The table."""
        if not self._frames:
            return None
        return StackFrames(tuple(self._files), tuple(self._functions), tuple(self._places), tuple(self._frames))

    def _made(self, location: str) -> Metadata:
        name = _NAME.match(location)
        op_name = _unescaped(name[1]) if name else ""
        found = _FRAME.findall(location, name.end() - 1 if name else 0)
        if len(found) == 1 and not found[0][0]:  # a place in a file, which is no Python function
            _, file, line, column, end_line, end_column = found[0]
            return Metadata(
                op_name=op_name,
                source_file=self._file if file == UNNAMED else _unescaped(file),
                source_line=int(line),
                source_end_line=int(end_line or line),
                source_column=int(column),
                source_end_column=int(end_column or column),
            )
        frame = 0
        for function, file, *numbers in reversed(found):
            frame = self._frame(_unescaped(function), _unescaped(file), [int(n or 0) for n in numbers], frame)
        return Metadata(op_name=op_name, stack_frame_id=frame)

    def _frame(self, function: str, file: str, numbers: list[int], parent: int) -> int:
        line, column, end_line, end_column = numbers
        place = (
            self._files.setdefault(file, len(self._files) + 1),
            self._functions.setdefault(function, len(self._functions) + 1),
            line,
            end_line or line,
            column,
            end_column or column,
        )
        number = self._places.setdefault(place, len(self._places) + 1)
        return self._frames.setdefault((number, parent), len(self._frames) + 1)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if len(m[1]) == 2 else m[1], text)
    return plain.encode("latin-1", "replace").decode("utf-8", "replace")
