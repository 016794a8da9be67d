"""PJRT_Error_*."""

from __future__ import annotations

from typing import Any

from xloom.pjrt.capi import errors
from xloom.pjrt.capi.slots import slot


@slot("PJRT_Error_Destroy")
def destroy(args: Any) -> None:
    """Frees it."""
    errors.destroy(args.error)


@slot("PJRT_Error_Message")
def message(args: Any) -> None:
    """Its text."""
    text = errors.message(args.error)
    args.message, args.message_size = text.address, text.size


@slot("PJRT_Error_GetCode")
def get_code(args: Any) -> None:
    """Its status code."""
    args.code = errors.code(args.error)


@slot("PJRT_Error_ForEachPayload")
def for_each_payload(args: Any) -> None:
    """There are none. An error here would be asked for its payloads in turn, without end."""
