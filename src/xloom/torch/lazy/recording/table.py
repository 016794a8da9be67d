"""What runs each operator on the device, by the operator's identity; filled as operators are met."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Handler = Callable[[Sequence[Any], Mapping[str, Any] | None], Any]
"""Takes the operator's arguments; tensors of the device among them are XlaTensors."""

HANDLERS: dict[int, Handler] = {}

NAMED: dict[str, Handler] = {}
"""Those written by hand, by name: `aten.copy_.default`."""

KEPT: list[Any] = []
"""The operators in HANDLERS, so that an identity stays one."""

_FINDERS: list[Callable[[Any], Handler]] = []
"""The function that finds handlers: `dispatch.find`, which knows all operators' modules and so lies above them."""


def find_by(find: Callable[[Any], Handler]) -> None:
    """Has operators' handlers found by a function."""
    _FINDERS[:] = [find]


def handler_of(op: Any) -> Handler:
    """What runs `op` from now on, which is met for the first time."""
    handler = _FINDERS[0](op)
    KEPT.append(op)
    HANDLERS[id(op)] = handler
    return handler


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Registers a function as what runs operators."""

    def register(function: Handler) -> Handler:
        for name in names:
            NAMED[name] = function
        return function

    return register
