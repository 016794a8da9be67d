"""Runs one custom call on the host, whatever its ABI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xloom.calls import buffers, original, status_returning
from xloom.calls.python_source import bound
from xloom.calls.registry import ABIS, Registration, lookup, place
from xloom.errors import CustomCallError, UnsupportedError
from xloom.hlo.module import Instruction

_NATIVE: dict[str, Callable[[int, Any, Sequence[Any], bytes], str | None]] = {
    "API_VERSION_ORIGINAL": original.call,
    "API_VERSION_STATUS_RETURNING": status_returning.call,
    "API_VERSION_STATUS_RETURNING_UNIFIED": status_returning.call_unified,
}


def invoke(instruction: Instruction, operands: Sequence[Any]) -> Any:
    """The value of a custom-call instruction: NumPy arrays, in tuples as its shape has them.

    Raises CustomCallError when the target is not registered, its ABI is not the call's, or the call reports a
    failure; the message carries target, instruction and source line, and a Python exception is its cause.
    """
    target = instruction["custom_call_target"]
    where = place(instruction)
    registration = lookup(target, "Host", where)
    shapes = instruction["operand_layout_constraints"] or [o.shape for o in instruction.operands]
    inputs = [buffers.place(v, s) for v, s in zip(operands, shapes, strict=True)]
    out = buffers.allocate(instruction.shape)
    for alias in instruction["output_to_operand_aliasing"]:
        # The output starts as the operand, and the callee sees one buffer as both, as in XLA. It is a copy, for the
        # caller may still need the operand.
        shared = buffers.part(out, alias.output_index)
        buffers.fill(shared, buffers.part(inputs[alias.operand], alias.operand_index))
        inputs[alias.operand] = buffers.with_part(inputs[alias.operand], alias.operand_index, shared)
    opaque = instruction.backend_config.encode("utf-8", "surrogateescape")
    if registration.function is not None:
        bound(registration, opaque, where)(out, [buffers.read_only(i) for i in inputs])
    else:
        version = checked_version(registration, instruction)
        message = _NATIVE[version](registration.address, out, inputs, opaque)
        if message is not None:
            raise failure(instruction, message)
    return _value(out)


def failure(instruction: Instruction, message: str) -> CustomCallError:
    """The error of a native call that reported `message`."""
    target = instruction["custom_call_target"]
    return CustomCallError(
        f"custom call {target!r} failed: {message or 'it gives no message'}", where=place(instruction)
    )


def checked_version(registration: Registration, instruction: Instruction) -> str:
    """The call's `api_version`. Raises when the native function has another, or nobody can call it that way."""
    version, where = instruction["api_version"], place(instruction)
    if registration.abi is not None and ABIS[registration.abi] != version:
        raise CustomCallError(
            f"custom call {registration.name!r} has the ABI {registration.abi}, the call says {version}",
            where=where,
            hint=f"write api_version={ABIS[registration.abi]}",
        )
    if version not in _NATIVE:
        raise UnsupportedError(
            f"custom call {registration.name!r} says {version}, which the interpreter cannot call yet",
            where=where,
            hint=f"supported: {', '.join(_NATIVE)}",
        )
    return version


def _value(out: Any) -> Any:
    from xloom.interpreter.registry import TOKEN

    if isinstance(out, tuple):
        return tuple(_value(o) for o in out)
    return TOKEN if out is None else np.asarray(out)
