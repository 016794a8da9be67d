"""In which kind of memory each result of a program is: what the custom calls say that it goes through."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.pjrt.memory_space import KINDS

_TARGET, _PLACEMENT = "annotate_device_placement", "_xla_buffer_placement"
_FORWARDING = frozenset({"bitcast", "copy", "get-tuple-element", "reshape", "tuple"})


def result_kinds(module: Module) -> list[str]:
    """A kind for each result of the entry; the default where nothing is said."""
    root = module.entry.root
    if not root.shape.is_tuple:
        return [_kind(root)]
    if root.opcode != "tuple":
        return [KINDS[0]] * len(root.shape.elements)
    return [_kind(operand) for operand in root.operands]


def _kind(value: Instruction) -> str:
    while True:
        if value.opcode == "custom-call" and value["custom_call_target"] == _TARGET:
            kind = value.frontend_attributes.get(_PLACEMENT, "")
            return kind if kind in KINDS else KINDS[0]
        if value.opcode == "get-tuple-element" and value.operands[0].opcode == "tuple":
            value = value.operands[0].operands[value["index"]]
        elif value.opcode in _FORWARDING and len(value.operands) == 1:
            (value,) = value.operands
        else:
            return KINDS[0]
