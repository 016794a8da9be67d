"""Custom calls out of C and C++ source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from xloom.calls.c_compiler import compile_source
from xloom.calls.registry import Registration
from xloom.calls.shared_library import load_library, register_symbol


def register_c(
    name: str,
    source: str | Path,
    symbol: str | Mapping[str, str] | None = None,
    *,
    platform: str = "Host",
    abi: str | None = None,
    language: str | None = None,
    include_dirs: Sequence[str | Path] = (),
) -> Registration:
    """Compiles C or C++ source and registers function `symbol` (default: `name`) as `name`.

    `source` is text or the Path of a file; `language` is "c" or "c++", by default what the file's name says, and C for
    a text. `include_dirs` are folders of headers, for `xla/ffi/api/ffi.h` that which `jax.ffi.include_dir()` gives.
    Symbols by stage are those of a typed handler; see register_pointer.
    """
    library = compile_source(source, language=language or _language(source), include_dirs=include_dirs)
    return register_symbol(name, library, symbol, platform=platform, abi=abi)


def load_source(path: str | Path, *, include_dirs: Sequence[str | Path] = ()) -> list[Registration]:
    """Compiles a .c, .cc, .cpp or .cxx file and registers what it offers by XLA_REGISTER_CUSTOM_CALL_TARGET."""
    path = Path(path)
    return load_library(compile_source(path, language=_language(path), include_dirs=include_dirs))


def _language(source: str | Path) -> str:
    return "c++" if isinstance(source, Path) and source.suffix != ".c" else "c"
