"""What can go wrong, one class by who must act; all are `XloomError`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A place in a source text: file, 1-based line and column, and the line itself."""

    line: int
    column: int
    source_line: str = ""
    file: str = "<hlo>"

    @staticmethod
    def at(text: str, offset: int, file: str = "<hlo>") -> Span:
        """The span of character `offset` of `text`."""
        offset = max(0, min(offset, len(text)))
        start = text.rfind("\n", 0, offset) + 1
        end = text.find("\n", offset)
        line = text[start : end if end >= 0 else len(text)]
        return Span(text.count("\n", 0, offset) + 1, offset - start + 1, line, file)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def caret(self, width: int = 120) -> str:
        """The source line, cut to `width` characters around the column, with a caret under it."""
        start = max(0, self.column - 1 - width * 2 // 3)
        line = self.source_line[start : start + width].replace("\t", " ")
        return f"  {line}\n  {' ' * (self.column - 1 - start)}^"


class XloomError(Exception):
    """Base of every error that xloom raises on purpose.

    `where` names the HLO object (an instruction or computation), `span` the place in the source text, `hint` what
    to do next.
    """

    def __init__(self, message: str, *, where: str = "", span: Span | None = None, hint: str = ""):
        super().__init__(message)
        self.message = message
        self.where = where
        self.span = span
        self.hint = hint

    def __str__(self) -> str:
        head = f"{self.span}: " if self.span else ""
        at = f" (at {self.where})" if self.where else ""
        caret = f"\n{self.span.caret()}" if self.span and self.span.source_line else ""
        hint = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{head}{self.message}{at}{caret}{hint}"


class ParseError(XloomError):
    """The text or bytes are not a module. Act: fix the input at `span` (text) or `where` (proto field path)."""


class ShapeError(XloomError, ValueError):
    """Shapes, dtypes or dimension attributes do not fit an operator. Act: fix the operands or the attribute."""


class VerifyError(XloomError):
    """A module breaks a rule of HLO. Act: fix the pass or builder that made it."""


class PassError(XloomError):
    """A pass cannot do what it was asked, or a pipeline text is malformed. Act: fix the pipeline or its options."""


class EvaluationError(XloomError):
    """The interpreter cannot give the program a value. Act: see the message; it names the instruction."""


class CheckError(EvaluationError, RuntimeError):
    """A program does what its run was to be checked for. Act: the message names the instruction, and its operands."""

    check = ""
    """Which of `xloom.checks.VALUE_CHECKS`."""
    instruction = ""
    """The name of the instruction; empty where native code does it and the interpreter does not."""
    index: tuple[int, ...] = ()
    """The first element of its value, or of its indices."""


class OutOfMemoryError(XloomError, MemoryError):
    """An array needs more memory than there is. Act: make it smaller, or compute it where it is read."""


class UnsupportedError(XloomError, NotImplementedError):
    """Valid HLO that this component does not implement. Act: see `hint` for another way."""


class LoweringError(UnsupportedError):
    """Valid HLO that the native compiler does not translate. Act: run it on the interpreter, or rewrite the program."""


class KernelFaultError(XloomError):
    """A kernel touches what it must not, or its threads wait for each other in vain."""


class SharedCodeError(XloomError):
    """Code that was made for one use does not fit another that was given it. Act: report it; XLOOM_CACHE=0 helps."""


class DistributedError(XloomError):
    """Processes do not come together. Act: the message names the process, and what it was to do; see its own error."""

    is_told = False
    """Whether it has left the runtime: a caller has asked for a result, and got this."""


class BufferAssignmentError(XloomError):
    """The compiler's plan of memory has a step read what is not there any more. Act: report it with the program."""


class LoopIRError(XloomError):
    """A loop nest that the compiler has made breaks a rule of its own. Act: report it with the program."""


class CustomCallError(XloomError):
    """A custom call is not registered, does not fit its call site, or reported a failure."""


class UnregisteredCallError(CustomCallError):
    """A custom call's target is not registered for the platform. Act: register it; `hint` has the nearest names."""


class MissingCompilerError(CustomCallError):
    """A custom call is C or C++ source, and there is no compiler. Act: install one, or set $CC or $CXX."""


class MissingExtraError(XloomError, ImportError):
    """An optional package is absent. Act: install the extra that the message names."""


def near(name: str, known: Iterable[str], count: int = 3) -> str:
    """A hint with the nearest spellings of `name` among `known`, or an empty string."""
    close = difflib.get_close_matches(name, list(known), count, 0.6)
    return f"did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
