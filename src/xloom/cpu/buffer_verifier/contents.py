"""Memory whose contents are names: which values lie where."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.buffers.allocation import BufferAllocation

Layout = tuple[int, ...]
Name = tuple[BufferValue, Layout]
"""A value, and the dimensions from the slowest to the fastest in which its elements lie, where those are not rows."""
ROW_MAJOR: Layout = ()


@dataclass(frozen=True)
class ByteRange:
    """Bytes [begin, end) of a piece of memory that overlaps no other."""

    region: Hashable
    begin: int
    end: int

    def overlaps(self, other: ByteRange) -> bool:
        """True when they share a byte."""
        return self.region == other.region and self.begin < other.end and other.begin < self.end


def byte_range(allocation: BufferAllocation) -> ByteRange:
    """The bytes of an allocation; those of one that has none are its own. Of a part they are as on the first device."""
    if allocation.gathered is not None:
        whole = byte_range(allocation.gathered[0])
        return ByteRange(whole.region, whole.begin, whole.begin + allocation.nbytes)
    if allocation.kind == "arena":
        result = allocation.colocated_with
        region: Hashable = "arena" if result is None else ("result", result.number)
        return ByteRange(region, allocation.offset, allocation.offset + allocation.nbytes)
    if allocation.kind in ("argument", "result", "constant"):
        return ByteRange((allocation.kind, allocation.number), 0, allocation.nbytes)
    return ByteRange((allocation.kind, id(allocation)), 0, allocation.nbytes)


class _Region:
    """The arrays in one piece of memory, by where they begin; none overlap."""

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.ends: dict[int, int] = {}
        self.names: dict[int, frozenset[Name]] = {}

    def copy(self) -> _Region:
        other = _Region()
        other.begins, other.ends, other.names = self.begins[:], self.ends.copy(), self.names.copy()
        return other

    def clear(self, begin: int, end: int) -> None:
        """Forgets every array of which a byte is in [begin, end)."""
        first = bisect_left(self.begins, begin)
        if first and self.ends[self.begins[first - 1]] > begin:
            first -= 1
        last = first
        while last < len(self.begins) and self.begins[last] < end:
            last += 1
        for gone in self.begins[first:last]:
            del self.ends[gone], self.names[gone]
        del self.begins[first:last]

    def put(self, begin: int, end: int, names: frozenset[Name]) -> None:
        self.clear(begin, end)
        self.begins.insert(bisect_left(self.begins, begin), begin)
        self.ends[begin], self.names[begin] = end, names


class Contents:
    """Which values are in which bytes. Snapshots are cheap: regions are copied when they are written."""

    def __init__(self) -> None:
        self._regions: dict[Hashable, _Region] = {}
        self._shared: set[Hashable] = set()
        self._linked: dict[Hashable, Hashable] = {}
        """Memory that may be one with another that is written: then it is lost."""

    def snapshot(self) -> Contents:
        """A copy of the contents; regions are shared until one of both writes them."""
        other = Contents()
        other._regions, other._linked = self._regions.copy(), self._linked.copy()
        self._shared, other._shared = set(self._regions), set(self._regions)
        return other

    def link(self, region: Hashable, other: Hashable) -> None:
        """Makes `other` lost when `region` is written, for both may be one memory."""
        self._linked[region] = other

    def names(self, span: ByteRange) -> frozenset[Name]:
        """The values that lie in just these bytes."""
        region = self._regions.get(span.region)
        if region is None or region.ends.get(span.begin) != span.end:
            return frozenset()
        return region.names[span.begin]

    def write(self, span: ByteRange, names: Iterable[Name] = ()) -> None:
        """Puts values in place of all that was there."""
        self._owned(span.region).put(span.begin, span.end, frozenset(names))
        linked = self._linked.get(span.region)
        if linked is not None:
            self._regions.pop(linked, None)

    def add(self, span: ByteRange, name: Name) -> None:
        """Gives the value that is there one more name."""
        self._owned(span.region).put(span.begin, span.end, self.names(span) | {name})

    def _owned(self, key: Hashable) -> _Region:
        region = self._regions.get(key)
        if region is None:
            region = self._regions[key] = _Region()
        elif key in self._shared:
            region = self._regions[key] = region.copy()
        self._shared.discard(key)
        return region
