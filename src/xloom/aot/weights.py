"""The constants of an exported program: part of it, or a file that is mapped when it is created."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xloom.calls.buffers import ALIGNMENT

MAGIC = b"XLOOMWT1"
HEADER_BYTES = 64
"""Of a file, before the constants: MAGIC, then the digest."""


@dataclass(frozen=True)
class Weights:
    """Arrays one after another, each at a multiple of ALIGNMENT."""

    offsets: tuple[int, ...]
    nbytes: int
    digest: bytes
    """32 bytes that tell these from others."""

    @staticmethod
    def written(arrays: Sequence[np.ndarray], path: Path) -> Weights:
        """Writes the file, which is `HEADER_BYTES` bytes and then the arrays."""
        digest, offsets, at = hashlib.sha256(), [], 0
        with path.open("wb") as file:
            file.write(bytes(HEADER_BYTES))
            for array in arrays:
                pad = bytes(-at % ALIGNMENT)
                data: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)  # a buffer, which NumPy's types hide
                for part in (pad, data):
                    file.write(part)
                    digest.update(part)
                offsets.append(at + len(pad))
                at = offsets[-1] + data.nbytes
            file.seek(0)
            file.write(MAGIC + digest.digest())
        return Weights(tuple(offsets), at, digest.digest())


def weights_assembly(path: Path) -> str:
    """Assembly that takes a file of weights into the object file, as they are in memory: `xloom_weights`."""
    return f""".section .rodata
.balign {ALIGNMENT}
.globl xloom_weights
xloom_weights:
.incbin "{path}", {HEADER_BYTES}
.byte 0
.section .note.GNU-stack,"",%progbits
"""
