"""Which routines of LAPACK the custom calls of JAX want, and the library that has them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xloom.calls.c_compiler import compiler
from xloom.errors import LoweringError, MissingCompilerError

_CALL = re.compile(
    r"lapack_(?:([sdcz])(trsm|getrf|geqrf|geqp3|potrf|gesdd|gesvd|geev|gees|gehrd|gtsv)"
    r"|([sd])(orgqr|ormqr|syevd|sytrd)|([cz])(ungqr|unmqr|heevd|hetrd))_ffi"
)
_NAME_ONE = "name a library with all of LAPACK, such as openblas, or its file"
_OF_REAL = {"ungqr": "orgqr", "unmqr": "ormqr", "heevd": "syevd", "hetrd": "sytrd"}


@dataclass(frozen=True)
class Routine:
    """One of LAPACK's, or BLAS's, routines."""

    letter: str
    """Of the type of its elements: s, d, c, z."""
    name: str

    @property
    def symbol(self) -> str:
        """What it is called, without what compilers of Fortran put behind it."""
        return self.letter + self.name

    @property
    def handler(self) -> str:
        """The function of lapack.c that calls it."""
        return f"lapack_{_OF_REAL.get(self.name, self.name)}"


def routine_of(target: str) -> Routine | None:
    """What a custom call of that target wants, None for targets that are not LAPACK's."""
    found = _CALL.fullmatch(target)
    if found is None:
        return None
    letter, name = (part for part in found.groups() if part)
    return Routine(letter, name)


@dataclass(frozen=True)
class Library:
    """A library with LAPACK's routines, and how it names them: `prefix`, the routine, `suffix`."""

    options: tuple[str, ...]
    """The linker's for it."""
    prefix: str
    suffix: str

    @property
    def definitions(self) -> list[str]:
        """The C compiler's options for the names."""
        return [f'-DLAPACK_PREFIX="{self.prefix}"', f'-DLAPACK_SUFFIX="{self.suffix}"']


REFERENCE = Library((), "", "_")
"""The names of LAPACK itself, and of most libraries that have it."""


def library_of(given: str | Path, routines: Sequence[Routine]) -> Library:
    """The library that is called `given` (openblas for libopenblas.so), or lies there.

    Raises LoweringError where there is none, or it does not have all `routines`; MissingCompilerError without a C
    compiler or GNU binutils.
    """
    is_file = "/" in str(given) or Path(given).exists()
    path = Path(given) if is_file else _installed(str(given))
    defined = _defined(path)
    wanted = sorted({routine.symbol for routine in routines})
    for suffix in ("_", ""):
        found = re.search(rf"^(\w*?){wanted[0]}{suffix}$", defined, re.M)
        if found is not None:
            break
    else:
        wide = re.search(rf"^\w*{wanted[0]}_?64_$", defined, re.M)
        raise LoweringError(
            f"{path} does not have LAPACK's {wanted[0]}",
            hint="its integers have 64 bits: name a library whose integers have 32" if wide else _NAME_ONE,
        )
    prefix = found[1]
    lacking = [w for w in wanted if not re.search(rf"^{re.escape(prefix + w + suffix)}$", defined, re.M)]
    if lacking:
        raise LoweringError(f"{path} does not have LAPACK's {', '.join(lacking)}", hint=_NAME_ONE)
    return Library((str(path), *(_places(path) if is_file else ())), prefix, suffix)


def _places(path: Path) -> list[str]:
    """Where a shared library that is not installed is looked for: beside the program, and where it is now."""
    return [f"-Wl,-rpath,$ORIGIN:{path.absolute().parent}"] if ".so" in path.name else []


def _installed(name: str) -> Path:
    """The file that the linker takes for -l`name`."""
    cc = compiler("c")
    for ending in ("so", "a"):
        file = f"lib{name}.{ending}"
        told = subprocess.run([*cc, f"-print-file-name={file}"], capture_output=True, text=True, check=False)
        path = Path(told.stdout.strip())
        if path.is_absolute():
            return path
    raise LoweringError(
        f"there is no library {name!r} here", hint=f"install it with its development files, or {_NAME_ONE}"
    )


def _defined(path: Path) -> str:
    """The names of what a library defines, a line each."""
    nm = shutil.which("nm")
    if nm is None:
        raise MissingCompilerError("there is no nm", hint="install GNU binutils")
    tables = ["--dynamic"] if ".so" in path.name else []
    told = subprocess.run(
        [nm, *tables, "--defined-only", "--format=posix", str(path)], capture_output=True, text=True, check=False
    )
    if told.returncode:
        raise LoweringError(f"{path} is no library: {told.stderr.strip()}", hint=_NAME_ONE)
    return "\n".join(line.split(" ", 1)[0] for line in told.stdout.splitlines())
