"""MLIR's locations as metadata: the operation's name in its framework, and the Python stack that made it.

Stacks have much in common, and what they have is one object to MLIR: to read each once takes a tenth of what it takes
to read how MLIR prints them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

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
        self._known: dict[Any, Metadata] = {}
        self._stacks: dict[Any, int] = {}
        self._files: dict[str, int] = {}
        self._functions: dict[str, int] = {}
        self._places: dict[tuple[int, int, int, int, int, int], int] = {}
        self._frames: dict[tuple[int, int], int] = {}

    def metadata(self, location: Any) -> Metadata:
        """What a location says."""
        key = location.attr
        found = self._known.get(key)
        if found is None:
            try:
                found = self._read(location)
            except _PrintedOnlyError:
                found = self._parsed(str(location))
            self._known[key] = found
        return found

    def frames(self) -> StackFrames | None:
        """The table."""
        if not self._frames:
            return None
        return StackFrames(tuple(self._files), tuple(self._functions), tuple(self._places), tuple(self._frames))

    def _read(self, location: Any) -> Metadata:
        op_name = ""
        if _kind(location) == "NameLoc":
            op_name, location = location.name_str, location.child_loc
        location = _known(location)
        if _kind(location) == "FileLineColLoc":
            return self._at_place(op_name, location.filename, *_numbers(location))
        return Metadata(op_name=op_name, stack_frame_id=self._stack(location))

    def _stack(self, location: Any) -> int:
        """The innermost frame of calls, the outermost of which is called by none."""
        above = []
        while _kind(location) == "CallSiteLoc" and location.attr not in self._stacks:
            above.append(location)
            location = location.caller
        frame = self._stacks.get(location.attr)
        if frame is None:
            frame = self._call(location, 0)
        for call in reversed(above):
            frame = self._stacks[call.attr] = self._call(call.callee, frame)
        return frame

    def _call(self, location: Any, parent: int) -> int:
        """The frame of a function called from another frame, or of several that were inlined."""
        kind = _kind(location)
        if kind == "CallSiteLoc":
            return self._call(location.callee, self._call(location.caller, parent))
        if kind == "UnknownLoc":
            return parent
        name = ""
        if kind == "NameLoc":
            name, location = location.name_str, location.child_loc
            if _kind(location) != "FileLineColLoc":
                return self._call(location, parent)
        return self._frame(name, location.filename, _numbers(location), parent)

    def _at_place(self, op_name: str, file: str, *numbers: int) -> Metadata:
        """A place in a file, which is no Python function."""
        line, column, end_line, end_column = numbers
        return Metadata(
            op_name=op_name,
            source_file=self._file if file == UNNAMED else file,
            source_line=line,
            source_end_line=end_line or line,
            source_column=column,
            source_end_column=end_column or column,
        )

    def _parsed(self, location: str) -> Metadata:
        """What a location says as MLIR prints it: joined ones, and all in versions that do not tell kinds apart."""
        name = _NAME.match(location)
        op_name = _unescaped(name[1]) if name else ""
        found = _FRAME.findall(location, name.end() - 1 if name else 0)
        frames = [(_unescaped(f), _unescaped(file), [int(n or 0) for n in numbers]) for f, file, *numbers in found]
        if len(frames) == 1 and not frames[0][0]:
            return self._at_place(op_name, frames[0][1], *frames[0][2])
        frame = 0
        for function, file, numbers in reversed(frames):
            frame = self._frame(function, file, numbers, frame)
        return Metadata(op_name=op_name, stack_frame_id=frame)

    def _frame(self, function: str, file: str, numbers: Sequence[int], parent: int) -> int:
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


class _PrintedOnlyError(Exception):
    """A location of a kind that has no parts here."""


_KINDS = frozenset(["NameLoc", "CallSiteLoc", "FileLineColLoc", "UnknownLoc"])


def _kind(location: Any) -> str:
    kind = type(location).__name__
    if kind not in _KINDS:
        raise _PrintedOnlyError
    return kind


def _known(location: Any) -> Any:
    """The side of a call whose other side is unknown, as where MLIR inlined a function that has no places."""
    while _kind(location) == "CallSiteLoc":
        callee, caller = location.callee, location.caller
        if "UnknownLoc" not in (_kind(callee), _kind(caller)):
            break
        location = callee if _kind(caller) == "UnknownLoc" else caller
    return location


def _numbers(place: Any) -> tuple[int, int, int, int]:
    """The first line and column, and the last ones."""
    return place.start_line, place.start_col, place.end_line, place.end_col


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if len(m[1]) == 2 else m[1], text)
    return plain.encode("latin-1", "replace").decode("utf-8", "replace")
