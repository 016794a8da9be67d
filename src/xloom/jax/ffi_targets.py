"""What users register for `platform="xloom"`: `jax.ffi.register_ffi_target` and `jax.ffi.register_ffi_type`."""

from __future__ import annotations

from typing import Any

from jaxlib import xla_client

from xloom.calls import register_ffi_type, register_pointer

_TYPED = 1


def take_registrations(platform: str) -> None:
    """Takes custom-call targets and types that JAX has for the platform, and those to come."""
    xla_client.register_custom_type_handler(platform, _register_type)
    xla_client.register_custom_call_handler(platform, _register_target)


def _register_type(name: str, pointers: Any) -> None:
    register_ffi_type(name, pointers)


def _register_target(name: str, target: Any, platform: str, api_version: int = 0, traits: int = 0) -> None:
    """Registers a native function, or a typed handler's dictionary of one per stage."""
    assert isinstance(traits, int) and platform
    register_pointer(name, target, abi="typed-ffi" if api_version == _TYPED else None)
