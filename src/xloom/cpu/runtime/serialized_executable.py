"""What a program needs to run apart from its module, and the same as bytes for later processes."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import astuple, dataclass, field

import numpy as np

from xloom.cpu.entry.collective_sites import CollectiveSite
from xloom.cpu.runtime.executable import CompiledMemoryStats
from xloom.cpu.runtime.memory_pool import aligned
from xloom.hlo.instruction import Instruction
from xloom.llvm import jit


@dataclass
class LinkedExecutable:
    """Linked machine code, the contents of its constants, and how much memory it needs."""

    library: jit.Library
    constants: list[np.ndarray]
    memory: CompiledMemoryStats
    calls: list[Instruction] = field(default_factory=list)
    """What calls code outside the program and may fail, in the order of their numbers."""
    kept: list[object] = field(default_factory=list)
    """What must live as long as the program may run."""
    aligned_results: set[int] = field(default_factory=set)
    """Results that such code sees, by number."""
    collectives: list[CollectiveSite] = field(default_factory=list)
    needs_run: bool = False
    """Whether what it calls may ask for the run that it is called in, as all code but LAPACK's may."""

    @property
    def nbytes(self) -> int:
        """Of memory, about."""
        return self.library.nbytes + sum(constant.nbytes for constant in self.constants)


@dataclass
class SerializedExecutable:
    """What an image is made of that no Python function is a part of."""

    objects: list[bytes]
    """Object files."""
    constants: list[np.ndarray]
    memory: CompiledMemoryStats
    native_calls: bytes = b""
    """Custom calls, as `native_call.to_bytes` gives them; empty without any."""
    failing: list[int] = field(default_factory=list)
    """The numbers of those of `LinkedExecutable.calls`."""
    aligned_results: list[int] = field(default_factory=list)
    """See Image."""
    collectives: list[CollectiveSite] = field(default_factory=list)

    def to_bytes(self) -> bytes:
        """The executable as bytes, which `from_bytes` reads in another process."""
        parts = [self.native_calls, *self.objects, *(a.tobytes() for a in self.constants)]
        sizes = [len(p) for p in parts]
        sites = [astuple(site) for site in self.collectives]
        fields = [astuple(self.memory), self.failing, self.aligned_results, sites, len(self.objects), sizes]
        header = json.dumps(fields).encode()
        return b"".join([struct.pack("<I", len(header)), header, *parts])

    def outline(self) -> str:
        """Lines that only equal ones have."""
        contents = {
            "object file": self.objects,
            "constant": [a.tobytes() for a in self.constants],
            "custom calls": [self.native_calls],
        }
        lines = [f"{kind} {hashlib.sha256(data).hexdigest()}" for kind, parts in contents.items() for data in parts]
        sites = [site.signature for site in self.collectives]  # their names are the module's
        return "\n".join([f"{astuple(self.memory)} {self.failing} {self.aligned_results} {sites}", *lines])

    @staticmethod
    def from_bytes(data: bytes) -> SerializedExecutable:
        """Reads what `to_bytes` wrote; constants are arrays of bytes, for only native code reads them."""
        (size,) = struct.unpack_from("<I", data)
        at = 4 + size
        memory, failing, aligned_results, sites, count, sizes = json.loads(data[4:at])
        parts = []
        for size in sizes:
            parts.append(data[at : at + size])
            at += size
        constants = [aligned(np.frombuffer(p, np.uint8)) for p in parts[1 + count :]]
        return SerializedExecutable(
            parts[1 : 1 + count],
            constants,
            CompiledMemoryStats(*memory),
            parts[0],
            failing,
            aligned_results,
            [CollectiveSite.from_json(site) for site in sites],
        )
