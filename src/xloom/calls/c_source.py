"""Custom calls out of C, C++ and CUDA source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from xloom.calls.c_compiler import compile_source, compiled, language_of
from xloom.calls.c_signature import abi_of
from xloom.calls.registry import Condition, Registration
from xloom.calls.shared_library import load_library, register_symbol
from xloom.calls.stated_abi import agreed_abi


def register_c(
    name: str,
    source: str | Path,
    symbol: str | Mapping[str, str] | None = None,
    *,
    platform: str | None = None,
    abi: str | None = None,
    language: str | None = None,
    include_dirs: Sequence[str | Path] = (),
    when: Condition | None = None,
    layouts: str = "",
) -> Registration:
    """Compiles C, C++ or CUDA source and registers function `symbol` (default: `name`) as `name`.

    `source` is text or the Path of a file; `language` is "c", "c++" or "cuda", by default what the file's name says,
    and C for a text. The platform is Host, for CUDA source CUDA, if nothing else is said. `include_dirs` are folders of
    headers, for `xla/ffi/api/ffi.h` that which `jax.ffi.include_dir()` gives. Symbols by stage are those of a typed
    handler; see register_pointer, for `when` and `layouts`, too. The ABI is what the function's parameters in the
    source say, where these can be read; an `abi` that contradicts them, and parameters of no ABI, raise
    CustomCallError.
    """
    language = language or (language_of(source) if isinstance(source, Path) else "c")
    library, expanded = compiled(source, language=language, include_dirs=include_dirs)
    platform = platform or ("CUDA" if language == "cuda" else "Host")
    if not isinstance(symbol, Mapping):
        abi = agreed_abi(name, abi, abi_of(expanded, symbol or name, platform), platform, "its source")
    return register_symbol(name, library, symbol, platform=platform, abi=abi, when=when, layouts=layouts)


def load_source(
    path: str | Path,
    *,
    include_dirs: Sequence[str | Path] = (),
    when: Condition | Mapping[str, Condition] | None = None,
    layouts: str | Mapping[str, str] = "",
) -> list[Registration]:
    """Compiles a .c, .cc, .cpp, .cxx or .cu file and registers what it offers by XLA_REGISTER_CUSTOM_CALL_TARGET.

    See load_library, for `when` and `layouts`, too.
    """
    path = Path(path)
    library = compile_source(path, language=language_of(path), include_dirs=include_dirs)
    return load_library(library, when=when, layouts=layouts)
