"""Custom calls that carry HLO: is there a module in the backend config, and which one?"""

from __future__ import annotations

import re

from xloom.calls.match_description import carried_text
from xloom.errors import PassError, Span, XloomError
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.text.parser import parse

_SPACE = r"(?:\s|/\*.*?\*/|//[^\n]*(?:\n|\Z))*"
_NAME = r"%?[A-Za-z_][\w.\-]*"
# a header, an entry, a computation with its parameter list, or one whose first instruction has a shape
_STARTS_AS_HLO = re.compile(
    rf"{_SPACE}(?:HloModule\b|ENTRY\b"
    rf"|{_NAME}\s*\([^{{}}]*(?:\{{[^{{}}]*\}}[^{{}}]*)*\)\s*->"
    rf"|{_NAME}\s*\{{{_SPACE}(?:ROOT\s+)?{_NAME}\s*=\s*(?:\(|[a-z][a-z0-9]*\[))",
    re.S,
)


def carries_hlo(instruction: Instruction) -> bool:
    """True for a custom call whose backend config, or the `hlo` in it, starts as an HLO module's text does."""
    return instruction.opcode == "custom-call" and _STARTS_AS_HLO.match(carried_text(instruction)) is not None


def carried_module(call: Instruction) -> Module:
    """The module that `call` carries.

    Raises PassError, pointing into the carried text, when that is malformed, and PassError when its entry does not
    take the call's operands or does not give its result.
    """
    file = f"<backend_config of {call.name}>"
    text = carried_text(call)
    try:
        module = parse(text, file)
    except XloomError as error:
        span = error.span or Span.at(text, 0, file)
        raise PassError(
            f"the HLO that this custom call carries is malformed: {error.message}",
            where=_where(call),
            span=span,
            hint=error.hint,
        ) from error
    _check(call, module)
    return module


def _check(call: Instruction, module: Module) -> None:
    entry, operands = module.entry, call.operands
    parameters = entry.parameters
    if [p.attrs["parameter_number"] for p in parameters] != list(range(len(parameters))):
        numbers = ", ".join(str(p.attrs["parameter_number"]) for p in parameters)
        raise PassError(f"the parameters of the carried {entry.name} are numbered {numbers}", where=_where(call))
    if len(parameters) != len(operands):
        raise PassError(
            f"the carried {entry.name} takes {len(parameters)} parameters, but the custom call has "
            f"{len(operands)} operands",
            where=_where(call),
        )
    for parameter, operand in zip(parameters, operands, strict=True):
        if parameter.shape.to_text(False) != operand.shape.to_text(False):
            raise PassError(
                f"the carried {entry.name} takes {parameter.shape.to_text(False)} as parameter "
                f"{parameter.attrs['parameter_number']} ({parameter.name}), but the custom call passes "
                f"{operand.shape.to_text(False)} ({operand.name})",
                where=_where(call),
            )
    if entry.root.shape.to_text(False) != call.shape.to_text(False):
        raise PassError(
            f"the carried {entry.name} returns {entry.root.shape.to_text(False)} ({entry.root.name}), but the custom "
            f"call returns {call.shape.to_text(False)}",
            where=_where(call),
        )


def _where(call: Instruction) -> str:
    target = call.attrs.get("custom_call_target", "")
    return f"custom call {call.name} to {target!r} {call.metadata.location}".rstrip()
