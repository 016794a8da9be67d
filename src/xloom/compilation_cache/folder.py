"""Where what is made once is kept for later processes."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from xloom.environment import CACHE, CACHE_DIR, XDG_CACHE_HOME
from xloom.errors import XloomError


def cache_dir() -> Path:
    """$XLOOM_CACHE_DIR, else xloom in the user's cache folder."""
    return _cache_dir(CACHE_DIR.text, XDG_CACHE_HOME.text, os.environ.get("HOME"))


@lru_cache(maxsize=8)  # each compilation asks several times
def _cache_dir(own: str, shared: str, _home: str | None) -> Path:
    if own or shared:
        return Path(own) if own else Path(shared) / "xloom"
    try:
        return Path.home() / ".cache" / "xloom"
    except RuntimeError:  # a user without a home: a place where nothing can be
        return Path(os.devnull) / "xloom"


def cache_enabled() -> bool:
    """False when XLOOM_CACHE=0 asks for every program to be compiled anew."""
    text = CACHE.text
    if text not in ("", "0", "1"):
        raise XloomError(f"{CACHE} is {text!r}", hint="set it to 0 to compile every program anew, or unset it")
    return text != "0"
