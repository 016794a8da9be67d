"""What users register for the platform: `jax.ffi.register_ffi_target` and `jax.ffi.register_ffi_type`."""

from __future__ import annotations

from typing import Any

from jaxlib import _jax, xla_client  # pyright: ignore[reportAttributeAccessIssue]

from xloom.calls import lookup, register_ffi_type, register_pointer
from xloom.calls.call_version import demand_handler
from xloom.calls.jaxlib_handlers import is_of_jaxlib
from xloom.cuda.names import CALL_PLATFORM, PJRT_PLATFORM
from xloom.jax.versions import type_registration

_TYPED = 1


def take_registrations(platform: str) -> None:
    """Takes custom-call targets and types that JAX has for the platform, and those to come."""
    of_cpu = platform == "cpu"
    hear_types, _ = type_registration()
    hear_types(platform, _register_type_of_cpu if of_cpu else _register_type)
    if platform == PJRT_PLATFORM:
        # by JAX's name of GPUs too, unless jaxlib's own plugin takes those
        for name in (platform, CALL_PLATFORM):
            xla_client.register_custom_call_handler(name, _register_target_of_gpus)
        return
    xla_client.register_custom_call_handler(platform, _register_target_of_cpu if of_cpu else _register_target)


def _register_type(name: str, pointers: Any) -> None:
    register_ffi_type(name, pointers)


def _register_target(name: str, target: Any, _: str, api_version: int = 0, traits: Any = 0) -> None:
    """Registers a native function, or a typed handler's dictionary of one per stage."""
    register_pointer(name, target, abi="typed-ffi" if api_version == _TYPED else None)


def _register_target_of_gpus(name: str, target: Any, _: str, api_version: int = 0, traits: Any = 0) -> None:
    abi = "typed-ffi" if api_version == _TYPED else None
    register_pointer(name, target, platform=CALL_PLATFORM, abi=abi)


# jaxlib's own CPU, whose registrations these were, has them too


def _register_type_of_cpu(name: str, pointers: Any) -> None:
    _register_type(name, pointers)
    _, register_with_jaxlib = type_registration()
    register_with_jaxlib(name, pointers)


def _register_target_of_cpu(name: str, target: Any, host: str, api_version: int = 0, traits: Any = 0) -> None:
    if not is_of_jaxlib(name):  # those are registered when a program asks for them
        _register_target(name, target, host, api_version, traits)
        demand_handler(lookup(name))  # what is none ends the process in jaxlib
    _jax.register_custom_call_target(name, target, host, api_version, traits)
