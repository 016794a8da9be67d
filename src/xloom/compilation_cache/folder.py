"""Where what is made once is kept for later processes."""

from __future__ import annotations

import os
from pathlib import Path

from xloom.errors import XloomError

SWITCH = "XLOOM_CACHE"


def cache_dir() -> Path:
    """$XLOOM_CACHE_DIR, else xloom in the user's cache folder."""
    own, shared = os.environ.get("XLOOM_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    if own or shared:
        return Path(own) if own else Path(shared or "") / "xloom"
    try:
        return Path.home() / ".cache" / "xloom"
    except RuntimeError:  # a user without a home: a place where nothing can be
        return Path(os.devnull) / "xloom"


def cache_enabled() -> bool:
    """False when XLOOM_CACHE=0 asks for every program to be compiled anew."""
    text = os.environ.get(SWITCH, "").strip()
    if text not in ("", "0", "1"):
        raise XloomError(f"{SWITCH} is {text!r}", hint="set it to 0 to compile every program anew, or unset it")
    return text != "0"
