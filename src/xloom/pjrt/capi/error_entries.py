"""PJRT_Error_*: what callers ask of an error; `errors` makes them."""

from __future__ import annotations

from typing import Any

from xloom.pjrt.capi import errors
from xloom.pjrt.capi.entry_points import entry_point


@entry_point("PJRT_Error_Destroy")
def destroy(args: Any) -> None:
    """Frees an error."""
    errors.destroy(args.error)


@entry_point("PJRT_Error_Message")
def message(args: Any) -> None:
    """The text of an error."""
    text = errors.message(args.error)
    args.message, args.message_size = text.address, text.size


@entry_point("PJRT_Error_GetCode")
def get_code(args: Any) -> None:
    """The status code of an error."""
    args.code = errors.code(args.error)


@entry_point("PJRT_Error_ForEachPayload")
def for_each_payload(args: Any) -> None:
    """Nothing to do: errors have no payloads. An error here would be asked for its payloads in turn, without end."""
