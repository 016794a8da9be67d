"""Asks a typed handler which version of the interface it is of."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from xloom.calls.typed_ffi import c_api

_UNANSWERED = -1
"""A version that no handler has."""


def version_of(frame: Any, call: Callable[[], str | None]) -> tuple[tuple[int, int] | None, str | None]:
    """What the handler says when `call` calls it with `frame`, which becomes a question; None if nothing.

    The second is the message of a handler that fails.
    """
    metadata = c_api.Metadata(ctypes.sizeof(c_api.Metadata))
    metadata.api_version.major = _UNANSWERED
    size = ctypes.sizeof(c_api.MetadataExtension)
    extension = c_api.MetadataExtension(size, c_api.METADATA_EXTENSION, None, ctypes.addressof(metadata))
    frame.call.extension_start = ctypes.addressof(extension)
    message = call()
    version = metadata.api_version.major, metadata.api_version.minor
    return (None if version[0] == _UNANSWERED else version), message
