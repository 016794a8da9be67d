"""Custom calls out of C and C++ source."""

from __future__ import annotations

from pathlib import Path

from xloom.calls.c_compiler import compile_source
from xloom.calls.registry import Registration
from xloom.calls.shared_library import load_library, register_symbol


def register_c(
    name: str, source: str | Path, symbol: str | None = None, *, platform: str = "Host", abi: str | None = None
) -> Registration:
    """Compiles C source, text or the Path of a file, and registers function `symbol` (default: `name`) as `name`."""
    return register_symbol(name, compile_source(source), symbol, platform=platform, abi=abi)


def load_source(path: str | Path) -> list[Registration]:
    """Compiles a .c, .cc, .cpp or .cxx file and registers what it offers by XLA_REGISTER_CUSTOM_CALL_TARGET."""
    path = Path(path)
    return load_library(compile_source(path, language="c" if path.suffix == ".c" else "c++"))
