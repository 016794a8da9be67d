"""Custom calls out of C and C++ source, compiled with the system's compiler and cached by content."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from xloom.calls.registry import Registration
from xloom.calls.shared_library import load_library, register_symbol
from xloom.errors import CustomCallError


def include_dir() -> str:
    """The folder to give a compiler as -I, for `#include <xloom/custom_call.h>`."""
    return str(Path(__file__).resolve().parent.parent / "include")


def cache_dir() -> Path:
    """Where compiled libraries are kept: $XLOOM_CACHE_DIR, else xloom in the user's cache folder."""
    base = os.environ.get("XLOOM_CACHE_DIR")
    if base:
        return Path(base)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "xloom"


def compiler(language: str) -> str:
    """The C or C++ compiler: $CC or $CXX, else the first of the usual names. Raises CustomCallError without one."""
    chosen = os.environ.get("CXX" if language == "c++" else "CC")
    names = ("c++", "g++", "clang++") if language == "c++" else ("cc", "gcc", "clang")
    for name in (chosen, *names) if chosen else names:
        found = shutil.which(name)
        if found:
            return found
    raise CustomCallError(
        f"no {language.upper()} compiler was found",
        hint=f"install one ({', '.join(names)}), or set {'CXX' if language == 'c++' else 'CC'}",
    )


def compile_source(source: str, *, language: str = "c", name: str = "<source>") -> Path:
    """The shared library of `source`. Raises CustomCallError with the compiler's message when it does not compile."""
    program = compiler(language)
    flags = ["-O2", "-fPIC", "-shared", "-x", language, "-I", include_dir()]
    header = Path(include_dir(), "xloom", "custom_call.h").read_bytes()
    key = hashlib.sha256("\0".join([program, *flags, source]).encode() + header).hexdigest()[:32]
    target = cache_dir() / "custom_calls" / f"{key}.so"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "made.so"
        text = f'#line 1 "{name}"\n{source}\n'
        done = subprocess.run(
            [program, *flags, "-", "-o", str(made)], input=text, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CustomCallError(f"{name} does not compile:\n{done.stderr.strip()}")
        made.replace(target)  # atomic: others see all of it or nothing
    return target


def register_c(
    name: str, source: str, symbol: str | None = None, *, platform: str = "Host", abi: str | None = None
) -> Registration:
    """Compiles C source and registers function `symbol` (default: `name`) under `name`."""
    return register_symbol(name, compile_source(source), symbol, platform=platform, abi=abi)


def load_source(path: str | Path) -> list[Registration]:
    """Compiles a .c, .cc, .cpp or .cxx file and registers what it offers by XLA_REGISTER_CUSTOM_CALL_TARGET."""
    path = Path(path)
    language = "c" if path.suffix == ".c" else "c++"
    return load_library(compile_source(path.read_text(), language=language, name=str(path)))
