"""The kinds of memory that a program's results shall be in, which HLO says by custom calls on them."""

from __future__ import annotations

from typing import Any

from xloom.stablehlo.attributes import main_of
from xloom.stablehlo.bindings import Bindings

_KIND = "mhlo.memory_kind"
_DEFAULT = "device"
PLACEMENT, TARGET = "_xla_buffer_placement", "annotate_device_placement"


def place_results(bindings: Bindings, module: Any) -> None:
    """Puts results of `@main` whose attribute names a kind through a custom call that does."""
    main = main_of(module)
    if main is not None:
        _place(bindings.ir, main)


def _place(ir: Any, function: Any) -> None:
    if "res_attrs" not in function.attributes:
        return
    end = list(function.regions[0].blocks[0])[-1].operation
    for k, attributes in enumerate(function.attributes["res_attrs"]):
        kind = attributes[_KIND].value if _KIND in attributes else _DEFAULT
        value = end.operands[k]
        if kind == _DEFAULT or _is_placed(value):
            continue
        with ir.InsertionPoint(end), end.location:
            placement = ir.DictAttr.get({PLACEMENT: ir.StringAttr.get(kind)})
            call = ir.Operation.create(
                "stablehlo.custom_call",
                results=[value.type],
                operands=[value],
                attributes={"call_target_name": ir.StringAttr.get(TARGET), "mhlo.frontend_attributes": placement},
            )
        end.operands[k] = call.result


def _is_placed(value: Any) -> bool:
    owner = value.owner
    name = getattr(getattr(owner, "operation", owner), "name", "")
    return name == "stablehlo.custom_call" and owner.attributes["call_target_name"].value == TARGET
