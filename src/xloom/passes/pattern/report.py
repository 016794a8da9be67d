"""What a search found, and what it nearly found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xloom.calls.match_description import MatchDescription
from xloom.hlo.attributes import StackFrames
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module


@dataclass(frozen=True)
class Place:
    """An instruction as it was when it was looked at: its text, and the line of the program it came from."""

    name: str
    text: str
    source: str

    @staticmethod
    def of(instruction: Instruction) -> Place:
        """The place of `instruction`."""
        file, line = source_of(instruction)
        return Place(instruction.name, instruction.to_text(print_metadata=False), f"{file}:{line}" if file else "")


@dataclass(frozen=True)
class Found:
    """A match that was outlined, and what the call says of it."""

    place: Place
    instructions: int
    description: MatchDescription


@dataclass(frozen=True)
class NearMiss:
    """A place where much of the pattern matches: how many of its instructions, and why not the rest.

    `program` is the instruction that stands in the way; `pattern` what the pattern has there, None when all matched
    and the match cannot be cut out; `hint` what to do about it, if something can be done.
    """

    place: Place
    matched: int
    of: int
    reason: str
    program: Place
    pattern: str | None
    hint: str = ""


def report_text(name: str, target: str, found: Sequence[Found], missed: Sequence[NearMiss]) -> str:
    """The report as lines of text."""
    lines = [f"outline {name} -> {target}: {_count(len(found), 'match')}, {_count(len(missed), 'near miss')}"]
    for f in found:
        lines.append(f"  {f.place.name}{_at(f.place)}: {_count(f.instructions, 'instruction')} outlined")
        lines.append(f"    {f.description}")
    for miss in missed:
        lines.append(f"  {miss.place.name}{_at(miss.place)}: {miss.matched} of {miss.of} match, but {miss.reason}")
        lines.append(f"    program  {miss.program.text}")
        if miss.pattern is not None:
            lines.append(f"    pattern  {miss.pattern}")
        if miss.hint:
            lines.append(f"    hint: {miss.hint}")
    return "\n".join(lines)


def source_of(instruction: Instruction) -> tuple[str, int]:
    """File and line of what made `instruction`, from its metadata or its stack frame; "" and 0 if unknown."""
    metadata = instruction.metadata
    if metadata.source_file:
        return metadata.source_file, metadata.source_line
    module: Module | None = instruction.parent.module if instruction.parent is not None else None
    table: StackFrames | None = module.stack_frames if module is not None else None
    if table is None or not 0 < metadata.stack_frame_id <= len(table.frames):
        return "", 0
    file, _, line, *_ = table.locations[table.frames[metadata.stack_frame_id - 1][0] - 1]
    return table.file_names[file - 1], line


def _count(number: int, what: str) -> str:
    plural = what + ("es" if what.endswith(("s", "h")) else "s")
    return f"{number} {what if number == 1 else plural}"


def _at(place: Place) -> str:
    return f" ({place.source})" if place.source else ""
