"""Runs one custom call on the host, whatever its ABI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xloom.calls import buffers, original, status_returning, superset
from xloom.calls.call_version import TYPED, call_version
from xloom.calls.failure import failure
from xloom.calls.program_run import ProgramRun
from xloom.calls.registry import Registration, place, target_of
from xloom.calls.sanitizer import active
from xloom.errors import UnsupportedError
from xloom.hlo.instruction import Instruction

_NATIVE: dict[str, Callable[[int, Any, Sequence[Any], bytes], str | None]] = {
    "API_VERSION_ORIGINAL": original.call,
    "API_VERSION_STATUS_RETURNING": status_returning.call,
    "API_VERSION_STATUS_RETURNING_UNIFIED": status_returning.call_unified,
}


def invoke(instruction: Instruction, operands: Sequence[Any], run: ProgramRun, device: str = "interpreter") -> Any:
    """The value of a custom-call instruction in a run: NumPy arrays, in tuples as its shape has them.

    Raises CustomCallError when the target is not registered, its ABI is not the call's, or the call reports a
    failure; the message carries target, instruction and source line, and a Python exception is its cause.
    """
    registration = target_of(instruction)
    settings = active()
    if settings is not None:
        from xloom.calls.sanitizer.call import sanitized  # here: whose calls are not watched does without it

        given = list(zip(operands, buffers.operand_shapes(instruction), strict=True))
        return value_of(sanitized(settings, instruction, given, registration, device, partial(_perform, run)))
    inputs = [buffers.place(v, s) for v, s in zip(operands, buffers.operand_shapes(instruction), strict=True)]
    out = buffers.allocate(instruction.shape)
    buffers.share_aliases(instruction, out, inputs)
    _perform(run, registration, instruction, out, inputs)
    return value_of(out)


def _perform(
    run: ProgramRun, registration: Registration, instruction: Instruction, out: Any, inputs: Sequence[Any]
) -> None:
    """Calls with these buffers."""
    if registration.function is not None:
        run.python_call(registration, instruction)(out, [buffers.read_only(i) for i in inputs])
    elif (version := checked_version(registration, instruction)) == TYPED:
        run.typed_call(registration, instruction, out, inputs)
    else:
        opaque = instruction.backend_config.encode("utf-8", "surrogateescape")
        call = superset.call if registration.abi is None else _NATIVE[version]
        message = call(registration.address, out, inputs, opaque)
        if message is not None:
            raise failure(instruction, message)


def checked_version(registration: Registration, instruction: Instruction) -> str:
    """The call's `api_version`. Raises when the native function has another, or this host cannot call it that way."""
    version = call_version(registration, instruction)
    if version not in (*_NATIVE, TYPED):
        raise UnsupportedError(
            f"custom call {registration.name!r} says {version}, which the interpreter cannot call yet",
            where=place(instruction),
            hint=f"supported: {', '.join((*_NATIVE, TYPED))}",
        )
    return version


def value_of(out: Any) -> Any:
    """The value of a call whose results are in these buffers."""
    from xloom.interpreter.registry import TOKEN

    if isinstance(out, tuple):
        return tuple(value_of(o) for o in out)
    return TOKEN if out is None else np.asarray(out)
