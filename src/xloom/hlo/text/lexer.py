"""A cursor over HLO text: whitespace and comments, names, numbers, strings, lists, and errors that point.

The parser is scannerless: each construct matches its own regular expression at the cursor, which in Python is several
times faster than making a token at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from xloom.errors import ParseError, Span

T = TypeVar("T")

SPACE = re.compile(r"(?:[ \t\r\n]+|/\*.*?\*/|//[^\n\r]*)+", re.S)
NAME = re.compile(r"%?([A-Za-z_][A-Za-z0-9_.\-]*):?")
IDENT = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
ATTRIBUTE = re.compile(r"([A-Za-z_][A-Za-z0-9_.\-]*)=")
INT = re.compile(r"-?\d+")
NUMBER = re.compile(
    r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|-?inf\b|-?nan(?:\(0x[0-9a-fA-F]+\))?",
)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'', re.S)
INTS = re.compile(r"\{([0-9,\s\-]*)\}")
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]+)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.S)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_JSON = re.compile(r'[^"{}]+|"(?:[^"\\]|\\.)*"|[{}]', re.S)


def unescape(raw: str) -> str:
    """The text that C escapes in `raw` stand for; bytes above 127 are read as UTF-8 where they are valid."""
    if "\\" not in raw:
        return raw
    data = bytearray()
    end = 0
    for match in _ESCAPE.finditer(raw):
        data += raw[end : match.start()].encode("utf-8", "surrogateescape")
        octal, hexa, u4, u8, char = match.groups()
        if octal:
            data.append(int(octal, 8) & 0xFF)
        elif hexa:
            data.append(int(hexa, 16) & 0xFF)
        elif u4 or u8:
            code = int(u4 or u8, 16)
            data += chr(code if code < 0x110000 else 0xFFFD).encode("utf-8", "surrogatepass")
        else:
            data += _SIMPLE.get(char, char).encode("utf-8", "surrogateescape")
        end = match.end()
    data += raw[end:].encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "surrogateescape")


_C_ESCAPES = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
_PLAIN = re.compile(r"[ !#-&(-\[\]-~]*\Z")


def escape(text: str) -> str:
    """`text` with C escapes, as XLA prints strings: octal for everything that is not printable ASCII."""
    if _PLAIN.match(text):
        return text
    data = text.encode("utf-8", "surrogateescape")
    return "".join(_C_ESCAPES.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in data)


def is_json_dict(text: str) -> bool:
    """True when `text` is one pair of braces, balanced but for those in strings: it needs no quotes."""
    return text.startswith("{") and _json_end(text, 0) == len(text)


def _json_end(text: str, start: int) -> int:
    depth, pos = 0, start
    while match := _JSON.match(text, pos):
        pos = match.end()
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
            if depth == 0:
                return pos
    return -1


class Cursor:
    """A position in a text, and the small matches that every construct is made of."""

    def __init__(self, text: str, file: str = "<hlo>", offset: int = 0):
        self.text = text
        self.pos = offset
        self.file = file

    def error(self, message: str, at: int | None = None, hint: str = "", where: str = "") -> NoReturn:
        """Raises ParseError at `at` (default: here)."""
        pos = self.pos if at is None else at
        raise ParseError(message, span=Span.at(self.text, pos, self.file), hint=hint, where=where)

    def found(self) -> str:
        """What stands at the cursor, for messages."""
        match = re.compile(r"[^\s,(){}]+|.", re.S).match(self.text, self.pos)
        return repr(match[0][:40]) if match else "the end of the text"

    def skip(self) -> None:
        """Moves past whitespace and comments."""
        match = SPACE.match(self.text, self.pos)
        if match:
            self.pos = match.end()

    def peek(self, literal: str) -> bool:
        """True when `literal` comes next, after space."""
        self.skip()
        return self.text.startswith(literal, self.pos)

    def eat(self, literal: str) -> bool:
        """Moves past `literal` if it comes next."""
        text = self.text
        if text.startswith(literal, self.pos):
            self.pos += len(literal)
            return True
        self.skip()
        if text.startswith(literal, self.pos):
            self.pos += len(literal)
            return True
        return False

    def eat_word(self, word: str) -> bool:
        """Moves past `word` if it comes next as a whole identifier."""
        self.skip()
        match = IDENT.match(self.text, self.pos)
        if match and match[0] == word:
            self.pos = match.end()
            return True
        return False

    def expect(self, literal: str, context: str) -> None:
        """Moves past `literal`, or raises: "expected ')' after ..., found ..."."""
        if not self.eat(literal):
            self.error(f"expected {literal!r} {context}, found {self.found()}")

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Moves past `pattern` if it comes next, after space."""
        self.skip()
        found = pattern.match(self.text, self.pos)
        if found:
            self.pos = found.end()
        return found

    def require(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Moves past `pattern`, or raises "expected `what`"."""
        found = self.match(pattern)
        if found is None:
            self.error(f"expected {what}, found {self.found()}")
        return found

    def at_end(self) -> bool:
        """True when only space is left."""
        self.skip()
        return self.pos >= len(self.text)

    # -- values
    def name(self, what: str = "a name") -> str:
        """A name, with or without %."""
        return self.require(NAME, what)[1]

    def ident(self, what: str) -> str:
        """An identifier."""
        return self.require(IDENT, what)[0]

    def integer(self, what: str = "an integer") -> int:
        """A decimal integer of 64 bits."""
        found = self.require(INT, what)
        return self._int64(found[0], found.start())

    def _int64(self, digits: str, at: int) -> int:
        value = int(digits) if len(digits) <= 20 else 2**64
        if not -(2**63) <= value < 2**64:
            self.error(f"integer {digits[:24]} does not fit 64 bits", at)
        return value

    def number(self, what: str = "a number") -> float:
        """A decimal number, inf or nan."""
        return float(self.require(NUMBER, what)[0].partition("(")[0])

    def boolean(self) -> bool:
        """true or false."""
        if self.eat_word("true"):
            return True
        if self.eat_word("false"):
            return False
        self.error(f"expected true or false, found {self.found()}")

    def string(self, what: str = "a quoted string") -> str:
        """A string in double or single quotes, with C escapes."""
        found = self.require(STRING, what)
        return unescape(found[1] if found[1] is not None else found[2])

    def string_or_json(self) -> str:
        """A quoted string, or a `{...}` dictionary, kept with its braces."""
        self.skip()
        if not self.text.startswith("{", self.pos):
            return self.string("a quoted string or a {...} dictionary")
        end = _json_end(self.text, self.pos)
        if end < 0:
            self.error("this '{' is never closed")
        start, self.pos = self.pos, end
        return self.text[start:end]

    def items(self, opening: str, closing: str, item: Callable[[], T], what: str) -> list[T]:
        """`opening` item, item, ... `closing`."""
        self.expect(opening, f"at the start of {what}")
        out: list[T] = []
        if self.eat(closing):
            return out
        while True:
            out.append(item())
            if self.eat(","):
                continue
            self.expect(closing, f"or ',' in {what}")
            return out

    def ints(self, what: str = "a list of integers") -> tuple[int, ...]:
        """`{1,2,3}`."""
        self.skip()
        found = INTS.match(self.text, self.pos)
        if found and len(found[1]) < 18 * (found[1].count(",") + 1):
            body = found[1].strip()
            try:
                values = tuple(map(int, body.split(","))) if body else ()
            except ValueError:
                pass
            else:
                self.pos = found.end()
                return values
        return tuple(self.items("{", "}", self.integer, what))
