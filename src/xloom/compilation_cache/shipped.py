"""What the package brings compiled: a file per target, which `make wheel` makes of the sources beside it.

A file starts with `MAGIC`, the length of its header (u32) and the header, JSON: `sources`, the digest of the sources
that made it; `version`, of its keys; `count`, of entries; `dictionary`, how many bytes it is. Then come the dictionary,
the keys (32 bytes each, sorted), where each entry ends (u64), and the entries, each compressed with the dictionary. All
numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import zlib
from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import xloom
from xloom.compilation_cache.cache import VERSION, Cache, key_of

_DECIDING = ("cpu", "codegen", "llvm", "infer", "hlo")
"""The folders of the package whose sources decide what a kernel's code is."""
FOLDER = Path(__file__).parent / "kernels"
_MAGIC = b"xloom kernels 2\n"
_LENGTH = struct.Struct("<I")
_KEY, _END = 32, 8
_SAMPLES, _SAMPLE = 12, 4096
"""Entries that the dictionary has the beginnings of, and their bytes: as much as zlib looks back, 32 KiB."""
_digests = Cache(1 << 10)


class ShippedEntries:
    """The entries of a file."""

    def __init__(self, data: bytes | mmap.mmap):
        (length,) = _LENGTH.unpack_from(data, len(_MAGIC))
        start = len(_MAGIC) + _LENGTH.size
        header = json.loads(data[start : start + length])
        self.sources: str = header["sources"]
        self._version: str = header["version"]
        self._data = data
        self._count: int = header["count"]
        self._keys = start + length + header["dictionary"]
        self._dictionary = bytes(data[start + length : self._keys])
        self._ends = self._keys + self._count * _KEY
        self._entries = self._ends + self._count * _END

    def key_of(self, *parts: bytes) -> str:
        """The key here of what is made of `parts`."""
        return key_of(*parts, version=self._version)

    def get(self, key: str) -> bytes | None:
        """The data of a key, if it is here."""
        wanted = bytes.fromhex(key)
        at = bisect_left(range(self._count), wanted, key=self._key)
        if at == self._count or self._key(at) != wanted:
            return None
        start = self._end(at - 1) if at else 0
        decompressor = zlib.decompressobj(zdict=self._dictionary)
        return decompressor.decompress(self._data[self._entries + start : self._entries + self._end(at)])

    def _key(self, number: int) -> bytes:
        at = self._keys + number * _KEY
        return self._data[at : at + _KEY]

    def _end(self, number: int) -> int:
        at = self._ends + number * _END
        return int.from_bytes(self._data[at : at + _END], "little")


def packed(entries: Mapping[str, bytes]) -> bytes:
    """A file of entries by the keys that they have in this process."""
    keys = sorted(entries)
    dictionary = b"".join(entries[key][:_SAMPLE] for key in keys[:: max(1, len(keys) // _SAMPLES)][:_SAMPLES])
    blobs = [_compressed(entries[key], dictionary) for key in keys]
    fields = {"sources": source_digest(), "version": VERSION, "count": len(keys), "dictionary": len(dictionary)}
    header = json.dumps(fields).encode()
    ends, end = [], 0
    for blob in blobs:
        end += len(blob)
        ends.append(end.to_bytes(_END, "little"))
    return b"".join([_MAGIC, _LENGTH.pack(len(header)), header, dictionary, *map(bytes.fromhex, keys), *ends, *blobs])


def _compressed(data: bytes, dictionary: bytes) -> bytes:
    compressor = zlib.compressobj(9, zdict=dictionary)
    return compressor.compress(data) + compressor.flush()


def file_of(target: str) -> Path:
    """Where the file of a target is, by the target's name."""
    return FOLDER / f"{target}.kernels"


@lru_cache(maxsize=16)
def shipped(target: str) -> ShippedEntries | None:
    """What the package brings for a target; nothing where its sources have changed since."""
    try:
        with open(file_of(target), "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    if data[: len(_MAGIC)] != _MAGIC:
        return None
    entries = ShippedEntries(data)
    return entries if entries.sources == _kept_digest() else None


def _kept_digest() -> str:
    """Of the sources: read once as long as none of them is written to."""
    key = key_of(b"sources")
    kept = _digests.get(key)
    if kept is None:
        kept = source_digest().encode()
        _digests.put(key, kept)
    return kept.decode()


def source_digest() -> str:
    """A digest of what the sources of kernels contain, wherever they are."""
    root = Path(os.path.dirname(xloom.__file__))
    digest = hashlib.sha256()
    for path in sorted(path for folder in _DECIDING for path in (root / folder).rglob("*.py")):
        content = path.read_bytes()
        digest.update(b"%s %d\n" % (path.relative_to(root).as_posix().encode(), len(content)))
        digest.update(content)
    return digest.hexdigest()
