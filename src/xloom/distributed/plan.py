"""Who sends what to whom in the collectives of a program, in tables for native code."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from xloom.cpu.entry.collective_sites import Blocks, CollectiveSite
from xloom.distributed.records import (
    DEVICE_AT,
    EAGER,
    FIRST_BYTES,
    HEADER,
    HEADER_BYTES,
    INLINE,
    LANE,
    LONGEST,
    PEER,
    POINTER_AT,
    RECORD,
    SEGMENT,
    STAGING,
)
from xloom.distributed.tags import Tags
from xloom.distributed.topology import number_of
from xloom.distributed.waits import Exchange

_LINE = 64
DIRECT = 1 << 14
"""Segments of so many bytes on average are messages of their own; smaller ones are copied into one."""


class Stagings:
    """Memory for what comes from other processes: one a set of devices of this one, as these do one thing at a time."""

    def __init__(self) -> None:
        self._of: dict[tuple[int, ...], Any] = {}

    def of(self, devices: tuple[int, ...]) -> int:
        """The address of the STAGING of a set of devices."""
        return ctypes.addressof(self._of.setdefault(devices, STAGING.new()))


class Plan:
    """The collectives of a program as one of its processes sees them. `places` are the process and the id of each
    device of the program; `declared` says which collectives it has, before they become others."""

    def __init__(
        self,
        sites: Sequence[CollectiveSite],
        places: Sequence[tuple[int, int]],
        process: int,
        ranks: Sequence[int],
        tags: Tags,
        stagings: Stagings,
        declared: str,
        name: str,
    ):
        self._places, self._process, self._ranks, self._tags = places, process, ranks, tags
        self._stagings, self._name = stagings, name
        self._kept: list[Any] = []
        self._lanes: dict[tuple[int, int, int], int] = {}
        self.exchanges: dict[int, Exchange] = {}
        """By the address of a record."""
        self.labels: dict[tuple[int, int], str] = {}
        """What collectives are called, by the numbers of the program and the collective in headers."""
        self._program = _number("\n".join([declared, *(site.signature for site in sites)]))
        records = [0] * max(1, len(sites) * len(places))
        for number, site in enumerate(sites):
            for k, group in enumerate(site.groups):
                if any(places[d][0] == process for d in group):
                    records[number * len(places) + k] = self._record(number, k, site, group)
        self._records = (ctypes.c_uint64 * len(records))(*records)
        self.address = ctypes.addressof(self._records)
        """Of the table of records by collective, then by group."""

    @property
    def others(self) -> list[int]:
        """All processes that this one sends to."""
        return sorted({other for exchange in self.exchanges.values() for other in exchange.peers})

    def _kept_at(self, structure: Any) -> int:
        self._kept.append(structure)
        return ctypes.addressof(structure)

    def _record(self, number: int, which: int, site: CollectiveSite, group: tuple[int, ...]) -> int:
        here = [d for d in group if self._places[d][0] == self._process]
        others = sorted({self._places[d][0] for d in group} - {self._process})
        traffic = []
        for other in others:
            there = [d for d in group if self._places[d][0] == other]
            sent, received = _segments(site, group, there, here), _segments(site, group, here, there)
            if sent or received:
                traffic.append((other, sent, received))
        layout = _Layout()
        pointers, devices = _operands(site, group, here, layout)
        peers = []
        requests = 0
        for other, sent, received in traffic:
            first, second = self._lane(group, other)
            out_bytes, in_bytes = _total(sent), _total(received)
            packs_out, packs_in = _is_packed(sent), _is_packed(received)
            requests += 2
            for segments, nbytes, packs in ((sent, out_bytes, packs_out), (received, in_bytes, packs_in)):
                if nbytes > INLINE:
                    requests += sum(-(-n // LONGEST) for n in ([nbytes] if packs else [s.nbytes for _, s in segments]))
            peers.append(
                PEER.new(
                    process=other,
                    rank=self._ranks[other],
                    tag=self._tags.headers(first, second),
                    data_tag=self._tags.data(first, second),
                    num_sent=len(sent),
                    sent=self._segment_table(sent),
                    num_received=len(received),
                    received=self._segment_table(received),
                    sent_bytes=out_bytes,
                    received_bytes=in_bytes,
                    sends_packed=packs_out,
                    receives_packed=packs_in,
                    message_out=layout.take(FIRST_BYTES),
                    message_in=layout.take(FIRST_BYTES),
                    packed_out=layout.take(out_bytes if packs_out and out_bytes > INLINE else 0),
                    packed_in=layout.take(in_bytes if packs_in and in_bytes > INLINE else 0),
                    header_bytes=HEADER_BYTES,
                    is_one_way=not min(out_bytes, in_bytes) and max(out_bytes, in_bytes) <= EAGER,
                    lane=self._lane_state(other, first, second),
                )
            )
        devices_here = tuple(self._places[d][1] for d in here)
        record = RECORD.new(
            local_size=len(here),
            num_peers=len(peers),
            peers=self._table(peers),
            staging=self._stagings.of(devices_here),
            device=here[0],
            num_pointers=len(pointers),
            pointers=self._table(pointers),
            num_devices=len(devices),
            devices=self._table(devices),
            header=self._header(number, site),
            requests=layout.take(8 * requests),
            owners=layout.take(8 * requests),
            staging_bytes=layout.nbytes,
        )
        address = self._kept_at(record)
        self.exchanges[address] = Exchange(site, number, which, devices_here, [other for other, _, _ in traffic])
        return address

    def _lane(self, group: Sequence[int], other: int) -> tuple[int, int]:
        """The first devices of a group in this process and another, numbered as there; see `Tags`."""
        both = sorted((self._process, other))
        first, second = (min(self._places[d][1] for d in group if self._places[d][0] == p) for p in both)
        return number_of(first), number_of(second)

    def _lane_state(self, other: int, first: int, second: int) -> int:
        """The address of the LANE of two devices."""
        lane = (other, first, second)
        if lane not in self._lanes:
            self._lanes[lane] = self._kept_at(LANE.new())
        return self._lanes[lane]

    def _table(self, rows: Iterable[Any]) -> int:
        words = [word for row in rows for word in row]
        return self._kept_at((ctypes.c_uint64 * max(1, len(words)))(*words))

    def _segment_table(self, segments: Sequence[tuple[int, Blocks]]) -> int:
        return self._table(SEGMENT.new(device=device, **blocks._asdict()) for device, blocks in segments)

    def _header(self, number: int, site: CollectiveSite) -> int:
        collective = _number(f"{number} {site.signature}")
        label = self.labels[self._program, collective] = self.label(site)
        return self._kept_at(header(label, collective, self._program))

    def label(self, site: CollectiveSite) -> str:
        """What a collective is called where that of another program may be meant."""
        return f"{site.label} of {self._name}"


def header(text: str, collective: int = 0, program: int = 0, run: int = 0) -> Any:
    """The bytes of a message's header."""
    fields = HEADER.new(collective=collective, program=program, run=run, nbytes=HEADER_BYTES)
    room = HEADER_BYTES - HEADER.size
    return ctypes.create_string_buffer(bytes(fields) + text.encode("utf-8", "replace")[: room - 1], HEADER_BYTES)


class _Layout:
    """Offsets in staging memory, each at the start of a cache line."""

    def __init__(self) -> None:
        self.nbytes = 0

    def take(self, nbytes: int) -> int:
        """The offset of so many bytes more."""
        at = self.nbytes
        self.nbytes = at + -(-nbytes // _LINE) * _LINE
        return at


def _operands(
    site: CollectiveSite, group: tuple[int, ...], here: Sequence[int], layout: _Layout
) -> tuple[list[Any], list[Any]]:
    """Where the operands of other processes' devices lie: pointers to them, and tables of these a device.

    What one device alone reads arrives where its copy belongs, if there is such a place.
    """
    extents = _extents(site)
    pointers, tables = [], []
    for device in (d for d in group if d not in here):
        at = layout.take(8 * site.operands)
        tables.append(DEVICE_AT.new(device=device, at=at))
        for operand in range(site.operands):
            landing = site.landing(group, here[0], device, operand) if len(here) == 1 else None
            if landing is None:
                target, base = layout.take(extents.get(operand, 0)), 0
            else:
                result, target = landing
                base = 1 + site.operands + result
            pointers.append(POINTER_AT.new(at=at + 8 * operand, target=target, base=base))
    return pointers, tables


def _extents(site: CollectiveSite) -> dict[int, int]:
    """How many bytes of each operand anybody reads."""
    found: dict[int, int] = {}
    largest = max(map(len, site.groups))
    for read in site.reads:
        for rank in range(largest):
            end = rank * read.step + (read.count - 1) * read.stride + read.nbytes if read.count else 0
            operand = read.operand + rank * read.operand_step
            found[operand] = max(found.get(operand, 0), end)
    return found


def _segments(
    site: CollectiveSite, group: tuple[int, ...], readers: Sequence[int], sources: Sequence[int]
) -> list[tuple[int, Blocks]]:
    """What some devices read of others, each once; what lies one behind the other is one."""
    found: list[tuple[int, Blocks]] = []
    for source in sources:
        seen = dict.fromkeys(blocks for reader in readers for blocks in site.blocks(group, reader, source))
        merged: list[Blocks] = []
        for blocks in sorted(seen):
            if not blocks.nbytes * blocks.count:
                continue
            if merged and _follows(merged[-1], blocks):
                merged[-1] = merged[-1]._replace(nbytes=merged[-1].nbytes + blocks.nbytes)
            else:
                merged.append(blocks)
        found += [(source, _whole(blocks)) for blocks in merged]
    return found


def _follows(first: Blocks, second: Blocks) -> bool:
    return first._replace(offset=first.offset + first.nbytes, nbytes=second.nbytes) == second


def _whole(blocks: Blocks) -> Blocks:
    """Blocks without gaps between them are one."""
    if blocks.count > 1 and blocks.stride == blocks.nbytes:
        return blocks._replace(nbytes=blocks.nbytes * blocks.count, count=1)
    return blocks


def _total(segments: Sequence[tuple[int, Blocks]]) -> int:
    return sum(blocks.nbytes * blocks.count for _, blocks in segments)


def _is_packed(segments: Sequence[tuple[int, Blocks]]) -> bool:
    return any(blocks.count > 1 for _, blocks in segments) or _total(segments) < DIRECT * len(segments)


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "little")
