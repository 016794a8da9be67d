"""Custom calls written in Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xloom.calls.registry import Registration, add
from xloom.errors import CustomCallError

F = TypeVar("F", bound=Callable[..., Any])


def custom_call(name: str, *, platform: str = "Host") -> Callable[[F], F]:
    """Registers the decorated function under `name`.

    It is called as `function(out, *inputs)`: `inputs` are read-only NumPy views, `out` is a writable one (zeroed, or
    the aliased operand); tuples are nested tuples of views. A keyword `opaque`, if it has one, gets the bytes of
    `backend_config`. An exception that it raises fails the computation, and is kept as the cause.

        @custom_call("do_custom_call")
        def do_custom_call(out, b, c):
            out[:] = np.resize(b, 2048) + c
    """

    def register(function: F) -> F:
        code = getattr(function, "__code__", None)
        source = f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
        add(Registration(name, platform, function=function, source=source))
        return function

    return register


def bound(registration: Registration, opaque: bytes, where: str) -> Callable[[Any, Sequence[Any]], None]:
    """A Python function as `call(out, inputs)` from one call site. Raises CustomCallError from whatever it raises."""
    function = registration.function
    assert function is not None
    keywords = {"opaque": opaque} if _takes_opaque(function) else {}

    def call(out: Any, inputs: Sequence[Any]) -> None:
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

    return call


def _takes_opaque(function: Callable[..., Any]) -> bool:
    try:
        parameter = inspect.signature(function).parameters.get("opaque")
    except (TypeError, ValueError):  # builtins without a signature
        return False
    return parameter is not None and parameter.kind is parameter.KEYWORD_ONLY
