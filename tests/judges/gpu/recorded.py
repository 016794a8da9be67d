"""A program with its arguments and with what it may return, as a file that another machine judges by."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xloom.hlo.module import Module
from xloom.hlo.proto.decoder import decode
from xloom.hlo.proto.encoder import encode
from xloom.interpreter.bounds import Bounds


@dataclass(frozen=True)
class Recorded:
    """What there is of a program."""

    name: str
    proto: bytes
    given: list[np.ndarray]
    runs: list[list[np.ndarray]]
    """Of each result, the values that say how far rounding may move it; none of a product that nothing rounds."""

    @property
    def module(self) -> Module:
        """The program."""
        return decode(self.proto)

    @property
    def arguments(self) -> list[np.ndarray]:
        """Arrays of its parameters' types; small numbers may be in the file as integers."""
        types = [p.shape.dtype.numpy if p.shape.is_array else None for p in self.module.entry.parameters]
        return [array.astype(t) if t is not None else array for array, t in zip(self.given, types, strict=True)]

    def bounds(self) -> list[Bounds]:
        """What it may return."""
        if self.runs:
            return [Bounds(runs) for runs in self.runs]
        return [Bounds([exact_product(self.module, self.arguments)])]


def exact_product(module: Module, given: Sequence[np.ndarray]) -> np.ndarray:
    """The value of a program that is one product of matrices, of numbers whose sums f32 holds."""
    (dot,) = [i for i in module.entry if i.opcode == "dot"]
    left, right = (np.asarray(a, np.float32) for a in given)
    left = left if tuple(dot["lhs_contracting_dims"]) == (1,) else left.T
    right = right if tuple(dot["rhs_contracting_dims"]) == (0,) else right.T
    return (left @ right).astype(dot.shape.dtype.numpy)


def record(
    folder: Path, source: str, number: int, name: str, module: Module, given: list[np.ndarray], runs: list
) -> None:
    """Writes a program's file."""
    path = folder / source / f"{number:04}.pickle.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(pickle.dumps(Recorded(name, encode(module), given, runs)), 3))


def files(folder: Path, source: str) -> list[Path]:
    """Those of a source's programs."""
    return sorted((folder / source).glob("*.pickle.gz"))


def recorded(path: Path) -> Recorded:
    """What a file of this judge's own has."""
    return pickle.loads(gzip.decompress(path.read_bytes()))
