"""What the machine lacks that the judge would use: without a GPU there is nothing to judge, other things are left out."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from xloom.cuda.driver.libcuda import libcuda
from xloom.cuda.run_time.device import devices_of
from xloom.cuda.run_time.images import image_of
from xloom.errors import XloomError

_TARGET = "target"
"""The file that says which GPU the machine code is for."""
_PARTS = {"jax": "sections jax door and its programs", "torch": "section torch door, and its times beside ours"}


def record_target(folder: Path, target: str) -> None:
    """Notes for which GPU there is machine code in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _TARGET).write_text(target)


def no_gpu(folder: Path) -> str:
    """Why no GPU here runs what is in a folder; empty where one does."""
    try:
        gpu, *_ = devices_of(libcuda(), image_of)
    except XloomError as error:
        return str(error)
    path = folder / _TARGET
    made = path.read_text() if path.exists() else gpu.target.name
    if made != gpu.target.name:
        here = gpu.target.name
        return f"{gpu.name} is a {here}, and {folder} is for {made}: make judge-gpu-build TARGET={here}"
    return ""


def left_out() -> list[str]:
    """What is left out, since something is not installed."""
    lines = [f"no {name}: without {what}" for name, what in _PARTS.items() if find_spec(name) is None]
    if shutil.which("compute-sanitizer") is None:
        lines.append("no compute-sanitizer, which comes with NVIDIA's toolkit: without section sanitizer")
    return lines
