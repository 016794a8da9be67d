"""The module's table of Python stacks: keeps the frames that instructions name, numbered by first use."""

from __future__ import annotations

from dataclasses import replace

from xloom.hlo.attributes import Metadata, StackFrames
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module


def source_line(instruction: Instruction) -> str:
    """`file:line` of the code that an instruction comes from, as it or its stack frame says; or an empty string."""
    metadata = instruction.metadata
    module: Module | None = instruction.parent.module if instruction.parent else None
    table: StackFrames | None = module.stack_frames if module else None
    frame = metadata.stack_frame_id
    if metadata.location or table is None or not 0 < frame <= len(table.frames):
        return metadata.location
    location = table.frames[frame - 1][0]
    if not 0 < location <= len(table.locations):
        return ""
    file, _, line, *_ = table.locations[location - 1]
    return f"{table.file_names[file - 1]}:{line}" if 0 < file <= len(table.file_names) else ""


def place(instruction: Instruction) -> str:
    """The instruction's name, the operator of the framework that it comes from, and its source line."""
    name = instruction.metadata.op_name
    return ", ".join(filter(None, (instruction.name + (f" of {name}" if name else ""), source_line(instruction))))


def keep_used_frames(module: Module) -> None:
    """Renumbers stack frames in the order of their first use, callers first, and drops the rest, as XLA does.

    An identifier that is out of range, or whose chain of parents is, or is a cycle, becomes 0 (unknown).
    """
    table: StackFrames | None = module.stack_frames
    files: dict[str, int] = {}
    functions: dict[str, int] = {}
    locations: dict[tuple[int, ...], int] = {}
    frames: dict[tuple[int, int], int] = {}
    mapping: dict[int, int] = {0: 0}

    def intern(frame: int, parent: int) -> int:
        assert table is not None
        location = table.frames[frame - 1][0]
        if not 0 < location <= len(table.locations):
            return 0
        file, function, *rest = table.locations[location - 1]
        if not 0 < file <= len(table.file_names) or not 0 < function <= len(table.function_names):
            return 0
        key = (
            files.setdefault(table.file_names[file - 1], len(files) + 1),
            functions.setdefault(table.function_names[function - 1], len(functions) + 1),
            *rest,
        )
        place = locations.setdefault(key, len(locations) + 1)
        return frames.setdefault((place, parent), len(frames) + 1)

    renumbered: dict[int, tuple[Metadata, Metadata]] = {}
    """What was before, which is kept for its identity, and what is now: instructions share their metadata."""
    for instruction in module.instructions:
        before = instruction.metadata
        wanted = before.stack_frame_id
        if not wanted:
            continue
        if id(before) in renumbered:
            instruction.metadata = renumbered[id(before)][1]
            continue
        chain: list[int] = []
        current = wanted
        while current not in mapping and current not in chain:
            if table is None or not 0 < current <= len(table.frames):
                break
            chain.append(current)
            current = table.frames[current - 1][1]
        found = 0
        if current in mapping:
            found = mapping[current]
            for frame in reversed(chain):
                found = mapping[frame] = intern(frame, found)
        instruction.metadata = replace(before, stack_frame_id=found) if found != wanted else before
        renumbered[id(before)] = before, instruction.metadata
    module.stack_frames = None
    if frames:
        module.stack_frames = StackFrames(tuple(files), tuple(functions), tuple(locations), tuple(frames))  # type: ignore[arg-type]
