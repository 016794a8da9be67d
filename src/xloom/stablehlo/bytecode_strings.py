"""The strings of MLIR bytecode, read without MLIR (source: MLIR's page on its bytecode format)."""

from __future__ import annotations

_HEADER = b"ML\xefR"
_STRINGS = 0
_ALIGNED = 0x80


def has_only_text(data: bytes) -> bool:
    """True when all strings of some bytecode are UTF-8; False for bytecode that cannot be read so far, too."""
    try:
        return _Reader(data).strings_are_text()
    except (IndexError, ValueError):
        return False


class _Reader:
    def __init__(self, data: bytes):
        self._data = data
        self._at = len(_HEADER)

    def strings_are_text(self) -> bool:
        self._number()  # the version
        end = self._data.index(b"\0", self._at)
        self._data[self._at : end].decode("utf-8")  # the producer
        self._at = end + 1
        while self._at < len(self._data):
            kind = self._byte()
            size = self._number()
            if kind & _ALIGNED:
                alignment = self._number()
                if not alignment:
                    raise ValueError("an alignment of 0")
                self._at = -(-self._at // alignment) * alignment
            if kind & ~_ALIGNED == _STRINGS:
                return self._strings(self._at + size)
            self._at += size
        raise ValueError("no strings")

    def _strings(self, end: int) -> bool:
        count = self._number()
        if not count <= end - self._at:
            raise ValueError("more strings than bytes")
        sizes = [self._number() for _ in range(count)]
        at = self._at
        if end > len(self._data) or at + sum(sizes) > end:
            raise ValueError("strings that end after the bytecode")
        for size in reversed(sizes):  # of the last string first
            self._data[at : at + size].decode("utf-8")
            at += size
        return True

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _number(self) -> int:
        """As many zeros below the first one as bytes follow; none at all, and all eight do."""
        first = self._byte()
        more = 8 if not first else (first & -first).bit_length() - 1
        rest = self._data[self._at : self._at + more]
        if len(rest) < more:
            raise IndexError("a number that is cut off")
        self._at += more
        return (
            int.from_bytes(rest, "little") if more == 8 else int.from_bytes(bytes([first]) + rest, "little") >> more + 1
        )
