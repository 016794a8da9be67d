"""The system's C, C++ and CUDA compilers: source in, shared library out, cached by content."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xloom.cache_folder import cache_dir
from xloom.errors import CustomCallError, MissingCompilerError


@dataclass(frozen=True)
class _Language:
    variable: str
    names: tuple[str, ...]
    """The usual ones of its compiler."""
    suffixes: tuple[str, ...]
    """Of its files."""
    options: tuple[str, ...]


_LANGUAGES = {
    "c": _Language("CC", ("cc", "gcc", "clang"), (".c",), ("-fPIC", "-x", "c")),
    "c++": _Language("CXX", ("c++", "g++", "clang++"), (".cc", ".cpp", ".cxx", ".C"), ("-fPIC", "-x", "c++")),
    "cuda": _Language("NVCC", ("nvcc",), (".cu",), ("-Xcompiler", "-fPIC", "-x", "cu")),
}


def include_dir() -> str:
    """The folder to give a compiler as -I, for `#include <xloom/custom_call.h>`."""
    return str(Path(__file__).resolve().parent.parent / "include")


def compiler(language: str) -> list[str]:
    """The compiler's command: $CC, $CXX or $NVCC, which may have options, else the first of the usual names there is.

    Raises MissingCompilerError when there is none, or not the one that the variable names.
    """
    variable, names = _LANGUAGES[language].variable, _LANGUAGES[language].names
    chosen = shlex.split(os.environ.get(variable, ""))
    if chosen:
        if shutil.which(chosen[0]) is None:
            raise MissingCompilerError(
                f"there is no {chosen[0]!r}, which ${variable} names", hint=f"unset {variable}, or set it to a compiler"
            )
        return chosen
    for name in names:
        if shutil.which(name):
            return [name]
    raise MissingCompilerError(
        f"no {language.upper()} compiler was found", hint=f"install one ({', '.join(names)}), or set {variable}"
    )


def language_of(path: Path) -> str:
    """The language that a file's name says."""
    for language, known in _LANGUAGES.items():
        if path.suffix in known.suffixes:
            return language
    known = ", ".join(suffix for language in _LANGUAGES.values() for suffix in language.suffixes)
    raise CustomCallError(f"{path} is of no known language", hint=f"name it {known}, or say which with language=")


def compile_source(source: str | Path, *, language: str = "c", include_dirs: Sequence[str | Path] = ()) -> Path:
    """The shared library of `source`: text, or the Path of a file. Headers are looked for in `include_dirs` too.

    Raises CustomCallError with the compiler's message when it does not compile.
    """
    folder = _made(cache_dir() / "custom_calls")
    path = source if isinstance(source, Path) else _saved(source, folder, _LANGUAGES[language].suffixes[0])
    folders = [option for folder in (*include_dirs, include_dir()) for option in ("-I", str(folder))]
    command = [*compiler(language), "-O2", *_LANGUAGES[language].options, *folders, str(path)]
    # the key is of what the preprocessor makes of the source: the headers are in it, so that it changes with them
    expanded = _run([*command, "-E"], path)
    key = hashlib.sha256("\0".join(command).encode() + expanded).hexdigest()[:32]
    target = folder / f"{key}.so"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            made = Path(temporary) / "made.so"
            _run([*command, "-shared", "-o", str(made), "-lm"], path)
            made.replace(target)  # atomic: others see all of it or nothing
    return target


def link(source: str, output: Path, libraries: Sequence[Path]) -> None:
    """Writes shared library `output`: C text, and what of `libraries` it brings into the process with it."""
    path = output.with_suffix(".c")
    path.write_text(source)
    # not only those whose symbols it uses, and found where they lie
    needed = ["-x", "none", "-Wl,--no-as-needed", *map(str, libraries)]
    places = [f"-Wl,-rpath,{library.parent}" for library in libraries]
    options = ["-O2", "-fPIC", "-shared", "-I", include_dir(), "-x", "c", str(path)]
    _run([*compiler("c"), *options, *needed, *places, "-o", str(output)], path)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CustomCallError(
            f"cannot make the folder for compiled code: {error}", hint="set XLOOM_CACHE_DIR to one that can be written"
        ) from None
    return folder


def _saved(text: str, folder: Path, suffix: str) -> Path:
    # a file, for the compiler quotes the lines of files only
    data = text.encode()
    path = folder / f"{hashlib.sha256(data).hexdigest()[:32]}{suffix}"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            made = Path(temporary) / "source"
            made.write_bytes(data)
            made.replace(path)
    return path


def _run(command: list[str], source: Path) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise CustomCallError(f"{source} does not compile:\n{done.stderr.decode(errors='replace').strip()}")
    return done.stdout
