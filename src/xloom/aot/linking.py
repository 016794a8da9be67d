"""The C compiler and the linker: object files and what is around them, as one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from xloom.aot.lapack import REFERENCE, Library
from xloom.aot.weights import weights_assembly
from xloom.calls.c_compiler import compiler, include_dir, language_of
from xloom.errors import LoweringError, MissingCompilerError

_PROGRAM = Path(__file__).with_name("program.c")
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".C")
_LARGEST = 1 << 31
"""Bytes that code reaches with 32 bits."""


def link(
    objects: Sequence[bytes],
    tables: str,
    calls: str,
    weights: Path | None,
    exports: Sequence[str],
    output: Path,
    more: Sequence[Path],
    include_dirs: Sequence[str | Path],
    lapack: Library | None,
) -> None:
    """Writes an object file (`output` ends with .o) or else a shared library that has `exports` alone.

    `tables` and `calls` are C text, see tables.py and typed_calls.py. `weights` is a file that becomes part of it;
    `more` are object files, libraries, and sources in C and C++ with headers in `include_dirs`; `lapack` has the
    routines of LAPACK that `calls` names. Raises MissingCompilerError without a compiler or GNU binutils, LoweringError
    where these fail.
    """
    if not sys.platform.startswith("linux"):
        raise LoweringError("programs are exported on Linux alone", hint="export it there, and link it there")
    if weights is not None and weights.stat().st_size >= _LARGEST:
        size = weights.stat().st_size
        raise LoweringError(f"{size} bytes of constants are too many for one object file", hint="use --weights FILE")
    objcopy = shutil.which("objcopy")
    if objcopy is None:
        raise MissingCompilerError("there is no objcopy", hint="install GNU binutils")
    cc = compiler("c")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        parts = []
        for k, data in enumerate(objects):
            parts.append(made / f"{k}.o")
            parts[-1].write_bytes(data)
        (made / "tables.h").write_text(tables)
        definition = f'-DEXPORT_TABLES="{made / "tables.h"}"'
        parts.append(_compiled([*cc, "-O2", "-fPIC", "-Wno-builtin-declaration-mismatch", definition], _PROGRAM, made))
        if calls:
            source = made / "calls.c"
            source.write_text(calls)
            affixes = (lapack or REFERENCE).definitions
            parts.append(_compiled([*cc, "-O2", "-fPIC", f"-I{_PROGRAM.parent}", *affixes], source, made))
        if weights is not None:
            assembly = made / "weights.S"
            assembly.write_text(weights_assembly(weights.absolute()))
            parts.append(_compiled(cc, assembly, made))
        languages = {file: language_of(file) for file in more if file.suffix in _SOURCES}
        folders = [f"-I{folder}" for folder in (*include_dirs, include_dir())]
        own = [
            _compiled([*compiler(languages[file]), "-O2", "-fPIC", *folders], file, made) if file in languages else file
            for file in more
        ]
        whole = made / "whole.o"
        _run([*cc, "-r", "-nostdlib", "-o", str(whole), *map(str, parts)])
        _run([objcopy, *(f"--keep-global-symbol={name}" for name in exports), str(whole)])
        if output.suffix == ".o":
            _run([*cc, "-r", "-nostdlib", "-o", str(output), str(whole), *map(str, own)])
        else:
            linker = compiler("c++") if "c++" in languages.values() else cc
            name = f"-Wl,-soname,{output.name}"
            libraries = [*(lapack.options if lapack else ()), "-lm", "-lpthread"]
            _run([*linker, "-shared", name, "-o", str(output), str(whole), *map(str, own), *libraries])


def _compiled(command: Sequence[str], source: Path, folder: Path) -> Path:
    made = folder / f"{source.stem}_{source.suffix[1:]}.o"
    _run([*command, "-c", str(source), "-o", str(made)])
    return made


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise LoweringError(f"{command[0]} failed:\n{said}", hint=f"the command: {' '.join(command)}")
