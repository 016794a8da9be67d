"""Which MPI there is: one with the standard ABI of MPI 5, which MPICH and others have."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

from xloom.environment import MPI
from xloom.errors import MissingExtraError

NAME = "libmpi_abi.so.1"
_PACKAGE = "mpich"
_LONGEST_VERSION = 8192
"""MPI_MAX_LIBRARY_VERSION_STRING."""
_INSTALL = f"pip install 'xloom[mpi]', or set {MPI} to the {NAME} of an MPI 5"


@dataclass(frozen=True)
class Found:
    """An MPI, or why there is none."""

    path: str = ""
    why_not: str = ""


def find() -> Found:
    """The MPI that would be used; it is not loaded."""
    named = MPI.text
    if named:
        return Found(named) if Path(named).exists() else Found(why_not=f"{MPI} is {named}, where nothing is")
    try:
        packed = [file for file in files(_PACKAGE) or () if file.name == NAME]
    except PackageNotFoundError:
        packed = []
    for file in packed:
        path = Path(str(file.locate())).resolve()
        if path.exists():
            return Found(str(path))
    try:
        ctypes.CDLL(NAME)
    except OSError:
        return Found(why_not=f"there is no {NAME}")
    return Found(NAME)


@lru_cache(maxsize=1)
def library() -> Any:
    """The library, loaded. Raises MissingExtraError where there is none."""
    found = find()
    if not found.path:
        raise MissingExtraError(f"several processes need MPI, and {found.why_not}", hint=_INSTALL)
    try:
        return ctypes.CDLL(found.path)
    except OSError as error:
        raise MissingExtraError(f"the MPI {found.path} cannot be loaded: {error}", hint=_INSTALL) from error


def version() -> str:
    """What the library says of itself, in one line."""
    text, size = ctypes.create_string_buffer(_LONGEST_VERSION), ctypes.c_int()
    library().MPI_Get_library_version(text, ctypes.byref(size))
    lines = text.value.decode("utf-8", "replace").split("\n")
    return " ".join(lines[0].split())
