"""What other processes must know of the collectives of a program: who reads which bytes of whose operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.stack_frames import source_line


class Read(NamedTuple):
    """Blocks of an operand that each reader takes; reader number r of a group takes those r steps on."""

    operand: int
    nbytes: int
    count: int = 1
    stride: int = 0
    step: int = 0
    operand_step: int = 0


class Landing(NamedTuple):
    """Where the copy goes that each reader makes of one operand of each source, so that this may arrive there.

    For reader number r of a group and source number k, it is operand `operand + r * operand_step`, whose first byte
    belongs `k * source_step + r * reader_step` bytes behind that of result `result + k * result_step`.
    """

    operand: int
    result: int
    operand_step: int = 0
    result_step: int = 0
    source_step: int = 0
    reader_step: int = 0


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

    name: str
    """That of its operator, or of the instruction."""
    line: str
    """Of the source."""
    kind: str
    """Its opcode and shape."""
    signature: str
    """What all processes must have in common."""
    groups: tuple[tuple[int, ...], ...]
    operands: int
    reads: tuple[Read, ...]
    sources: tuple[int, ...] = ()
    """Whom each device reads, where that is one device; -1 for nobody."""
    landings: tuple[Landing, ...] = ()
    """Of operands whose copies lie in one piece. A result follows the operands in the table that a device leaves."""

    origin: int = -1
    """The number of the module's instruction that has the name and the line; -1 for none."""

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"{self.name} ({', '.join(filter(None, (self.kind, self.line)))})"

    def blocks(self, group: tuple[int, ...], reader: int, source: int) -> Iterator[Blocks]:
        """What a device reads of another's operands."""
        if self.sources and self.sources[reader] != source:
            return
        rank = group.index(reader)
        for read in self.reads:
            yield Blocks(
                read.operand + rank * read.operand_step, rank * read.step, read.nbytes, read.count, read.stride
            )

    def landing(self, group: tuple[int, ...], reader: int, source: int, operand: int) -> tuple[int, int] | None:
        """Where an operand of `source` belongs in the memory of `reader`: the number of a result, and bytes from there.

        None where there is no such place.
        """
        r, k = group.index(reader), group.index(source)
        for at in self.landings:
            if at.operand + r * at.operand_step == operand:
                return at.result + k * at.result_step, k * at.source_step + r * at.reader_step
        return None

    @staticmethod
    def from_json(fields: list[Any]) -> CollectiveSite:
        """What `json` makes of `astuple(site)`."""
        name, line, kind, signature, groups, operands, reads, sources, landings, origin = fields
        return CollectiveSite(
            name,
            line,
            kind,
            signature,
            tuple(map(tuple, groups)),
            operands,
            tuple(Read(*r) for r in reads),
            tuple(sources),
            tuple(Landing(*each) for each in landings),
            origin,
        )


def with_origins(sites: Sequence[CollectiveSite], module: Module) -> list[CollectiveSite]:
    """The sites of a program, with the numbers of the module's instructions that they come from."""
    numbers: dict[tuple[str, str], int] = {}
    if any(site.line for site in sites):
        for number, instruction in enumerate(module.instructions):
            numbers.setdefault((instruction.metadata.op_name, source_line(instruction)), number)
    return [replace(site, origin=numbers.get((site.name, site.line), -1)) for site in sites]


def named_as_in(sites: Sequence[CollectiveSite], module: Module) -> list[CollectiveSite]:
    """The sites of a program that was compiled from the same instructions, with this module's names and lines."""
    if all(site.origin < 0 for site in sites):
        return list(sites)
    instructions = list(module.instructions)
    return [_named_as(site, instructions[site.origin]) if site.origin >= 0 else site for site in sites]


def _named_as(site: CollectiveSite, instruction: Instruction) -> CollectiveSite:
    return replace(site, name=instruction.metadata.op_name or site.name, line=source_line(instruction))
