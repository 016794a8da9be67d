"""Attributes of MLIR's operations that jaxlib's converter passes on, and the function that becomes the entry."""

from __future__ import annotations

from typing import Any

_FRONTEND = "mhlo.frontend_attributes"


def add_frontend_attribute(ir: Any, operation: Any, name: str, text: str) -> None:
    """Gives an operation, or the module, one more of the attributes that HLO has too, unless it has that one."""
    attributes = {name: ir.StringAttr.get(text)}
    if _FRONTEND in operation.attributes:
        given = ir.DictAttr(operation.attributes[_FRONTEND])
        attributes |= {given[k].name: given[k].attr for k in range(len(given))}
    operation.attributes[_FRONTEND] = ir.DictAttr.get(attributes)


def main_of(module: Any) -> Any:
    """The operation of the function `@main`, if there is one."""
    for function in module.body:
        operation = function.operation
        if operation.name == "func.func" and operation.attributes["sym_name"].value == "main":
            return operation
    return None
