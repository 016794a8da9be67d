"""What a program needs to run apart from its module, and the same as bytes for later processes."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field

import numpy as np

from xloom.cpu import jit
from xloom.cpu.executable import Memory
from xloom.cpu.memory import aligned
from xloom.hlo.instruction import Instruction


@dataclass
class Image:
    """Linked machine code, the contents of its constants, and how much memory it needs."""

    library: jit.Library
    constants: list[np.ndarray]
    memory: Memory
    calls: list[Instruction] = field(default_factory=list)
    """What calls code outside the program and may fail, in the order of their numbers."""
    kept: list[object] = field(default_factory=list)
    """What must live as long as the program may run."""
    aligned_results: set[int] = field(default_factory=set)
    """Results that such code sees, by number."""


def packed(objects: Sequence[bytes], constants: Sequence[np.ndarray], memory: Memory) -> bytes:
    """What an image without calls is made of; `objects` are its object files."""
    parts = [*objects, *(a.tobytes() for a in constants)]
    header = json.dumps([astuple(memory), len(objects), [len(p) for p in parts]]).encode()
    return b"".join([struct.pack("<I", len(header)), header, *parts])


def unpacked(data: bytes) -> tuple[list[bytes], list[np.ndarray], Memory]:
    """The arguments of `packed`; constants as bytes, for only native code reads them."""
    (size,) = struct.unpack_from("<I", data)
    at = 4 + size
    memory, count, sizes = json.loads(data[4:at])
    parts = []
    for size in sizes:
        parts.append(data[at : at + size])
        at += size
    return parts[:count], [aligned(np.frombuffer(p, np.uint8)) for p in parts[count:]], Memory(*memory)
