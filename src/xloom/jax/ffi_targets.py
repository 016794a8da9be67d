"""Custom-call targets that users register with `jax.ffi.register_ffi_target(..., platform="xloom")`."""

from __future__ import annotations

from typing import Any

from xloom.calls import register_pointer

_TYPED = 1


def register_target(name: str, target: Any, platform: str, api_version: int = 0, traits: int = 0) -> None:
    """Registers a native function; a dictionary holds one a stage."""
    assert isinstance(traits, int) and platform
    if isinstance(target, dict):
        target = target["execute"]
    register_pointer(name, target, abi="typed-ffi" if api_version == _TYPED else None)
