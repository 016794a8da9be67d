"""The system's C, C++ and CUDA compilers: source in, shared library out, cached by content."""

from __future__ import annotations

import atexit
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xloom.compilation_cache import trusted_folder
from xloom.compilation_cache.folder import cache_dir
from xloom.environment import CC, CXX, NVCC, Variable
from xloom.errors import CustomCallError, MissingCompilerError, near


@dataclass(frozen=True)
class _Language:
    variable: Variable
    names: tuple[str, ...]
    """The usual ones of its compiler."""
    suffixes: tuple[str, ...]
    """Of its files."""
    options: tuple[str, ...]


_LANGUAGES = {
    "c": _Language(CC, ("cc", "gcc", "clang"), (".c",), ("-fPIC", "-x", "c")),
    "c++": _Language(CXX, ("c++", "g++", "clang++"), (".cc", ".cpp", ".cxx", ".C"), ("-fPIC", "-x", "c++")),
    "cuda": _Language(NVCC, ("nvcc",), (".cu",), ("-Xcompiler", "-fPIC", "-x", "cu")),
}


def include_dir() -> str:
    """The folder to give a compiler as -I, for `#include <xloom/custom_call.h>`."""
    return str(Path(__file__).resolve().parent.parent / "include")


def compiler(language: str) -> list[str]:
    """The compiler's command: $CC, $CXX or $NVCC, which may have options, else the first of the usual names there is.

    Raises MissingCompilerError when there is none, or not the one that the variable names.
    """
    variable, names = _LANGUAGES[language].variable, _LANGUAGES[language].names
    chosen = shlex.split(variable.text)
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
    return compiled(source, language=language, include_dirs=include_dirs)[0]


def compiled(source: str | Path, *, language: str = "c", include_dirs: Sequence[str | Path] = ()) -> tuple[Path, bytes]:
    """The shared library, as `compile_source`, and the source with all that it includes."""
    if language not in _LANGUAGES:
        known = ", ".join(_LANGUAGES)
        raise CustomCallError(
            f"there is no language {language!r}", hint=near(language, _LANGUAGES) or f"one of: {known}"
        )
    if isinstance(source, Path):
        if not source.is_file():
            raise CustomCallError(f"there is no file {source}", hint=f"a path begins in {Path.cwd()}")
    elif not set(source) & set(";#{\n"):
        raise CustomCallError(
            f"{source!r} is no source", hint="a file is a pathlib.Path; the name of the call comes first"
        )
    folder = _folder()
    path = source if isinstance(source, Path) else _saved(source, folder, _LANGUAGES[language].suffixes[0])
    folders = [option for folder in (*include_dirs, include_dir()) for option in ("-I", str(folder))]
    command = [*compiler(language), "-O2", *_LANGUAGES[language].options, *folders, str(path)]
    # the key is of what the preprocessor makes of the source: the headers are in it, so that it changes with them
    expanded = _run([*command, "-E"], path)
    key = hashlib.sha256("\0".join(command).encode() + expanded).hexdigest()[:32]
    known = _known(folder, key)
    if known is not None:
        return known, expanded
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        made = Path(temporary) / "made.so"
        _run([*command, "-shared", "-o", str(made), "-lm"], path)
        data = made.read_bytes()
    name = _digest(data)
    trusted_folder.write(folder, f"{name}.so", data)
    trusted_folder.write(folder, key, name.encode())
    return Path(folder) / f"{name}.so", expanded


def _known(folder: str, key: str) -> Path | None:
    """The library that was made before, if it is still what it was: one cut off would end the process."""
    try:
        name = trusted_folder.read(folder, key).decode("ascii", "replace")
        whole = _digest(trusted_folder.read(folder, f"{name}.so")) == name
    except trusted_folder.UntrustedError as error:
        trusted_folder.warn_once(folder, error)
        return None
    except (OSError, ValueError):
        return None
    return Path(folder) / f"{name}.so" if whole else None


def link(source: str, output: Path, libraries: Sequence[Path]) -> None:
    """Writes shared library `output`: C text, and what of `libraries` it brings into the process with it."""
    path = output.with_suffix(".c")
    path.write_text(source)
    # not only those whose symbols it uses, and found where they lie
    needed = ["-x", "none", "-Wl,--no-as-needed", *map(str, libraries)]
    places = [f"-Wl,-rpath,{library.parent}" for library in libraries]
    options = ["-O2", "-fPIC", "-shared", "-I", include_dir(), "-x", "c", str(path)]
    _run([*compiler("c"), *options, *needed, *places, "-o", str(output)], path)


def _folder() -> str:
    """Where compiled code is kept, or one for this process alone where others could write."""
    path = cache_dir() / "custom_calls"
    try:
        return trusted_folder.real_folder(path, create=True)
    except trusted_folder.UntrustedError as error:
        trusted_folder.warn_once(path, error)
        return _own_folder(os.getpid())
    except OSError as error:
        raise CustomCallError(
            f"cannot make the folder for compiled code: {error}", hint="set XLOOM_CACHE_DIR to one that can be written"
        ) from None


@cache
def _own_folder(process: int) -> str:
    path = tempfile.mkdtemp(prefix="xloom-")
    atexit.register(_remove, path, process)
    return trusted_folder.real_folder(path)


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:  # a forked child ends too
        shutil.rmtree(folder, ignore_errors=True)


def _saved(text: str, folder: str, suffix: str) -> Path:
    # a file, for the compiler quotes the lines of files only
    data = text.encode()
    name = f"{_digest(data)[:32]}{suffix}"
    try:
        is_there = trusted_folder.read(folder, name) == data
    except OSError:
        is_there = False
    if not is_there:
        trusted_folder.write(folder, name, data)
    return Path(folder) / name


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _run(command: list[str], source: Path) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise CustomCallError(
            f"{source} does not compile:\n{done.stderr.decode(errors='replace').strip()}",
            hint="mend the source; set CC, CXX or NVCC for another compiler",
        )
    return done.stdout
