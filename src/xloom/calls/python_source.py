"""Custom calls written in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from xloom.calls.registry import ABIS, Registration, add, place
from xloom.calls.signature import Signature
from xloom.calls.typed_ffi.attributes import parse_attributes
from xloom.errors import CustomCallError
from xloom.hlo.instruction import Instruction

F = TypeVar("F", bound=Callable[..., Any])


def custom_call(name: str, *, platform: str = "Host") -> Callable[[F], F]:
    """Registers the decorated function under `name`.

    It is called as `function(out, *inputs)`: `inputs` are read-only NumPy views, `out` is a writable one (zeroed, or
    the aliased operand); tuples are nested tuples of views. Annotations that say shapes or dtypes are checked when a
    program is compiled; see Signature. A keyword-only parameter `opaque` gets the bytes of `backend_config`, one named
    `attributes` the dictionary of a typed call's attributes. An exception that it raises fails the computation, and is
    kept as the cause.

        @custom_call("do_custom_call")
        def do_custom_call(out: xl.f32[2048], b: xl.f32[128], c: xl.f32[2048]):
            out[:] = np.resize(b, 2048) + c
    """

    def register(function: F) -> F:
        code = getattr(function, "__code__", None)
        source = f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
        add(Registration(name, platform, function=function, signature=Signature.of(function), source=source))
        return function

    return register


def bound(registration: Registration, call: Instruction) -> Callable[[Any, Sequence[Any]], None]:
    """A Python function as `function(out, inputs)` from one call site.

    Raises CustomCallError from whatever it raises, and at once when the call has no attributes to give.
    """
    function, where = registration.function, place(call)
    assert function is not None
    keywords = _keywords(registration, call, where)

    def bound_call(out: Any, inputs: Sequence[Any]) -> None:
        try:
            returned = function(out, *inputs, **keywords)
        except Exception as error:
            raise CustomCallError(
                f"custom call {registration.name!r} failed: {type(error).__name__}: {error}", where=where
            ) from error
        if returned is not None:
            raise CustomCallError(
                f"custom call {registration.name!r} returned a {type(returned).__name__}",
                where=where,
                hint="write the result into the first argument, out[...] = ..., and return None",
            )

    return bound_call


def _keywords(registration: Registration, call: Instruction, where: str) -> dict[str, Any]:
    """What the function gets by name."""
    known = registration.signature.keywords if registration.signature is not None else frozenset()
    found: dict[str, Any] = {}
    if "opaque" in known:
        found["opaque"] = call.backend_config.encode("utf-8", "surrogateescape")
    if "attributes" in known:
        if call["api_version"] != ABIS["typed-ffi"]:
            raise CustomCallError(
                f"custom call {registration.name!r} takes attributes, which a call with {call['api_version']} has not",
                where=where,
                hint=f"write api_version={ABIS['typed-ffi']}, or take the bytes of backend_config as `opaque`",
            )
        found["attributes"] = _decoded(parse_attributes(call.backend_config, where))
    return found


def _decoded(value: Any) -> Any:
    """An attribute as Python has it: text, a NumPy scalar, an array that cannot be written, or a dictionary."""
    if isinstance(value, dict):
        return {name: _decoded(v) for name, v in value.items()}
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if value.ndim == 0:
        return value[()]
    value.setflags(write=False)
    return np.asarray(value)
