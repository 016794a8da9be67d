"""What other processes must know of the collectives of a program: who reads which bytes of whose operands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple


class Read(NamedTuple):
    """Blocks of an operand that each reader takes; reader number r of a group takes those r steps on."""

    operand: int
    nbytes: int
    count: int = 1
    stride: int = 0
    step: int = 0
    operand_step: int = 0


class Blocks(NamedTuple):
    """Blocks of one operand."""

    operand: int
    offset: int
    nbytes: int
    count: int
    stride: int


@dataclass(frozen=True)
class CollectiveSite:
    """A collective of a program. Devices are numbered by replica, then partition."""

    label: str
    """What it is called in messages: opcode, name, shape and source line."""
    signature: str
    """What all processes must have in common."""
    groups: tuple[tuple[int, ...], ...]
    operands: int
    reads: tuple[Read, ...]
    sources: tuple[int, ...] = ()
    """Whom each device reads, where that is one device; -1 for nobody."""

    def blocks(self, group: tuple[int, ...], reader: int, source: int) -> Iterator[Blocks]:
        """What a device reads of another's operands."""
        if self.sources and self.sources[reader] != source:
            return
        rank = group.index(reader)
        for read in self.reads:
            yield Blocks(
                read.operand + rank * read.operand_step, rank * read.step, read.nbytes, read.count, read.stride
            )

    @staticmethod
    def from_json(fields: list[Any]) -> CollectiveSite:
        """What `json` makes of `astuple(site)`."""
        label, signature, groups, operands, reads, sources = fields
        return CollectiveSite(
            label, signature, tuple(map(tuple, groups)), operands, tuple(Read(*r) for r in reads), tuple(sources)
        )
