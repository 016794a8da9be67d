"""PTX to machine code by NVIDIA's assembler, which the extra `cuda` brings as a wheel."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from xloom.errors import LoweringError, MissingExtraError
from xloom.llvm.target import Target


@dataclass(frozen=True)
class Assembled:
    """The machine code of a kernel, and what ptxas says of it."""

    cubin: bytes
    registers: int
    """Of a thread."""
    spilled_bytes: int
    """Of registers that a thread has no room for, stored and loaded."""
    stack_bytes: int
    shared_bytes: int
    barriers: int
    warnings: tuple[str, ...] = ()
    """What ptxas says of speed that is lost, and the like."""


@lru_cache(maxsize=4)
def tool(name: str) -> str | None:
    """The path of a tool of NVIDIA's: of the wheel, else on the path; None where there is none."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        for found in sorted(Path(folder).glob(f"*/bin/{name}")):
            if not os.access(found, os.X_OK):
                found.chmod(0o755)
            return str(found)
    return shutil.which(name)


def assembled(ptx: str, target: Target) -> Assembled:
    """Machine code for a GPU. Raises MissingExtraError without ptxas, LoweringError with what it says is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        done = subprocess.run(
            [_needed("ptxas"), "-v", f"-arch={target.name}", str(source), "-o", str(cubin)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            message = (done.stderr or done.stdout).strip()
            raise LoweringError(f"ptxas: {message}", hint="a newer one may have the GPU: pip install -U 'xloom[cuda]'")
        report = done.stderr + done.stdout
        facts = [sum(map(int, re.findall(fact, report))) for fact in _FACTS]
        warnings = tuple(line for line in report.splitlines() if "warning" in line or "Performance" in line)
        return Assembled(cubin.read_bytes(), *facts, warnings=warnings)


def sass_of(cubin: bytes) -> str:
    """The instructions of machine code. Raises MissingExtraError without nvdisasm."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [_needed("nvdisasm"), "-c", str(file)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


_FACTS = (
    r"Used (\d+) registers",
    r"(\d+) bytes spill",
    r"(\d+) bytes stack frame",
    r"(\d+) bytes smem",
    r"used (\d+) barriers",
)
"""Of ptxas's report, in the order of `Assembled`; of several numbers, the sum."""


def _needed(name: str) -> str:
    found = tool(name)
    if found is None:
        raise MissingExtraError(f"{name} is not here", hint="pip install 'xloom[cuda]'")
    return found
