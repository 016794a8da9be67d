"""Python objects behind C pointers."""

from __future__ import annotations

import itertools
from typing import Any

_numbers = itertools.count(32, 16)  # pointers that are aligned, but point nowhere
objects: dict[int, Any] = {}
"""What each handle stands for; it lives until the handle is dropped."""


def put(value: Any) -> int:
    """A new handle for an object, which lives until `drop`."""
    handle = next(_numbers)
    objects[handle] = value
    return handle


def put_at(address: int, value: Any) -> int:
    """The address of a record as the handle of what it is about."""
    objects[address] = value
    return address


def drop(handle: int | None) -> Any:
    """Forgets a handle; NULL is allowed."""
    return objects.pop(handle, None) if handle else None


_interned: dict[int, tuple[int, Any]] = {}


def intern_handle(value: Any) -> int:
    """The one handle of an object that lives as long as its client."""
    known = _interned.get(id(value))
    if known is None:
        known = _interned[id(value)] = (put(value), value)
    return known[0]
