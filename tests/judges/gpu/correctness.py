"""Runs what is recorded on a client, in a child process: each program's results are held against what they may be."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tests.judges.programs  # noqa: F401 - the custom calls of random programs
from tests.judges.child import Case, Skipped
from tests.judges.gpu.images import Images
from tests.judges.gpu.recorded import files, recorded
from tests.judges.mismatch import mismatch
from xloom.errors import LoweringError
from xloom.pjrt import Client


class Item(NamedTuple):
    """The files of a source, and what to run them on: `gpu` or `emulator`."""

    folder: str
    source: str
    on: str
    target: str
    step: int = 1
    """One program of so many is run."""

    @property
    def runs(self) -> int:
        """How often each program is run: the last time as a graph, where its arrays lie where they lay before."""
        return 3 if self.on == "gpu" else 1


def cases(item: Item) -> Iterator[Case]:
    """A case for each file."""
    for path in files(Path(item.folder), item.source)[:: item.step]:
        name = f"{item.source} {path.name.partition('.')[0]}"
        yield name, lambda path=path: judge(path, client(item), item.runs)


@lru_cache(maxsize=1)
def client(item: Item) -> Client:
    """The GPUs of this machine, with the machine code of the folder, or emulated ones."""
    return Client.cuda_emulator(item.target) if item.on == "emulator" else Images(Path(item.folder)).client()


def judge(path: Path, client: Client, runs: int = 1) -> str:
    """What is wrong with a program's results of any run."""
    program = recorded(path)
    try:
        executable = client.compile(program.module)
    except LoweringError as error:
        raise Skipped(str(error)) from error
    arguments, bounds = [client.buffer_from_host(a) for a in program.arguments], program.bounds()
    for left in reversed(range(runs)):
        results = executable.execute(arguments, not_donated=range(len(arguments)) if left else ())
        found = mismatch(bounds, [np.asarray(r) for r in results], None)
        if found:
            return f"{program.name}: {found.message}"
    return ""
