"""Custom calls written in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from xloom.calls.acceptance import check_taken
from xloom.calls.match_description import MatchDescription
from xloom.calls.registry import ABIS, Condition, Registration, add, place
from xloom.calls.signature import Signature
from xloom.calls.typed_ffi.attributes import parse_attributes
from xloom.errors import CustomCallError, near
from xloom.hlo.instruction import Instruction

F = TypeVar("F", bound=Callable[..., Any])


def custom_call(
    name: str, *, platform: str = "Host", when: Condition | None = None, layouts: str = ""
) -> Callable[[F], F]:
    """Registers the decorated function under `name`.

    It is called as `function(out, *inputs)`: `inputs` are read-only NumPy views, `out` is a writable one (zeroed, or
    the aliased operand); tuples are nested tuples of views. Annotations that say shapes or dtypes are checked when a
    program is compiled; see Signature. An exception that it raises fails the computation, and is kept as the cause.

    A keyword-only parameter `opaque` gets the bytes of `backend_config`; `attributes` the dictionary of a typed call's
    attributes, or of what a pattern bound (the carried HLO aside); `match` the MatchDescription of a call that the pass
    `outline` made; one of another name the attribute of that name. `when` says of a MatchDescription whether the
    function takes such a call; `outline` leaves alone what it does not take. `layouts` says in which layouts operands
    and results are to be, as the pass's option does.

        @custom_call("do_custom_call")
        def do_custom_call(out: xl.f32[2048], b: xl.f32[128], c: xl.f32[2048]):
            out[:] = np.resize(b, 2048) + c
    """

    if not isinstance(name, str):
        raise CustomCallError(f"a custom call has a name, found {name!r}", hint='write @xl.custom_call("name")')

    def register(function: F) -> F:
        code = getattr(function, "__code__", None)
        source = f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
        signature = Signature.of(function)
        add(
            Registration(
                name, platform, function=function, signature=signature, source=source, when=when, layouts=layouts
            )
        )
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
    check_taken(registration, call, where)
    match = MatchDescription.of(call)
    signature = registration.signature
    if signature is None:
        return {}
    found: dict[str, Any] = {}
    for name in sorted(signature.keywords):
        if name == "opaque":
            found[name] = call.backend_config.encode("utf-8", "surrogateescape")
        elif name == "match":
            if match is None:
                message = f"custom call {registration.name!r} takes a match, and this call says nothing of one"
                raise CustomCallError(message, where=where, hint="such calls are made by the pass `outline`")
            found[name] = match
        elif name == "attributes":
            found[name] = _attributes(registration, call, match, where)
        elif match is not None or call["api_version"] == ABIS["typed-ffi"]:
            attributes = _attributes(registration, call, match, where)
            if name in attributes:
                found[name] = attributes[name]
            elif name in signature.required:
                message = f"custom call {registration.name!r} takes {name!r}, which is not among the call's attributes"
                hint = near(name, attributes) or f"there are: {', '.join(attributes) or 'none'}"
                raise CustomCallError(message, where=where, hint=hint)
    return found


def _attributes(
    registration: Registration, call: Instruction, match: MatchDescription | None, where: str
) -> dict[str, Any]:
    if match is not None:
        return match.attributes()
    if call["api_version"] != ABIS["typed-ffi"]:
        raise CustomCallError(
            f"custom call {registration.name!r} takes attributes, which a call with {call['api_version']} has not",
            where=where,
            hint=f"write api_version={ABIS['typed-ffi']}, or take the bytes of backend_config as `opaque`",
        )
    return _decoded(parse_attributes(call.backend_config, where))


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
