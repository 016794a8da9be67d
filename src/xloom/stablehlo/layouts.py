"""How a program's arguments and results shall lie in memory, which MLIR says by attributes of `@main`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from xloom.errors import ParseError, UnsupportedError
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.shape import Layout, Shape, tuple_shape
from xloom.stablehlo.attributes import add_frontend_attribute, main_of
from xloom.stablehlo.bindings import Bindings

_MODE = "mhlo.layout_mode"
_KEPT = "xloom.layouts"
_AUTO, _DEFAULT = "auto", "default"
_ORDER = re.compile(r"\{([\d,]*)[:}]")
_TILES = re.compile(r":.*T\(")
_MARKS = frozenset(
    {"Sharding", "annotate_device_placement", "MoveToHost", "MoveToDevice", "xla.sdy.FuncResultSharding"}
)
"""Custom calls that give their operand."""
_ANYWHERE = frozenset({"broadcast", "constant", "iota"})
"""What is as cheap to have in one order as in another."""


def keep_layouts(bindings: Bindings, module: Any) -> None:
    """Writes them where jaxlib's converter passes them on."""
    main = main_of(module)
    if main is None:
        return
    modes = [_modes(main, name) for name in ("arg_attrs", "res_attrs")]
    if any(mode != _DEFAULT for row in modes for mode in row):
        add_frontend_attribute(bindings.ir, module.operation, _KEPT, json.dumps(modes))


def _modes(function: Any, name: str) -> list[str]:
    if name not in function.attributes:
        return []
    return [each[_MODE].value if _MODE in each else _DEFAULT for each in function.attributes[name]]


# -- in HLO
def restore_layouts(module: Module) -> None:
    """Makes them the layout of the entry: row-major unless told, or as it costs least where that is left open."""
    text = module.frontend_attributes.pop(_KEPT, None)
    taken, given = json.loads(text) if text else ([], [])
    entry, config = module.entry, module.config
    parameters = [p.shape.with_default_layout() for p in entry.parameters]
    modes = zip(parameters, taken or [_DEFAULT] * len(parameters), strict=True)
    config.parameter_layouts = [_in_mode(s, mode, s.major_to_minor) for s, mode in modes]
    pairs = zip(entry.parameters, config.parameter_layouts, strict=True)
    lying = {p: s.major_to_minor for p, s in pairs if s.is_array}
    config.result_layout = entry.root.shape.with_default_layout()
    values = entry.root.operands if entry.root.opcode == "tuple" else [entry.root]
    if len(given) == len(values):
        found = [
            _in_mode(v.shape.with_default_layout(), mode, order_of(v, lying) if v.shape.is_array else ())
            for v, mode in zip(values, given, strict=True)
        ]
        config.result_layout = tuple_shape(found) if entry.root.shape.is_tuple else found[0]


def _in_mode(shape: Shape, mode: str, cheapest: tuple[int, ...]) -> Shape:
    if mode == _DEFAULT or not shape.is_array:
        return shape
    order = cheapest[::-1]
    if mode != _AUTO:
        found = _ORDER.match(mode)
        order = tuple(int(d) for d in found[1].split(",") if d) if found else ()
        if found is None or sorted(order) != list(range(shape.rank)):
            hint = "mhlo.layout_mode is default, auto, or all dimensions from the slowest, as in {1,0}"
            raise ParseError(f"no layout of {shape}: {mode!r}", hint=hint)
        if _TILES.search(mode):
            raise UnsupportedError(
                f"the layout {mode} of {shape} has tiles, which arrays here do not have",
                hint="leave out the tiling and give the order of dimensions alone",
            )
    layout = Layout(order)
    return shape if layout.is_default else shape.with_layout(layout)


def order_of(value: Instruction, lying: Mapping[Instruction, tuple[int, ...]]) -> tuple[int, ...]:
    """The order of dimensions in which it costs least to have a value, where `lying` says in which parameters lie."""
    while value not in lying:
        opcode = value.opcode
        if opcode == "transpose":
            inner = order_of(value.operands[0], lying)
            place = {old: new for new, old in enumerate(value["dimensions"])}
            return tuple(place[d] for d in inner)
        if opcode == "call":
            (callee,) = value.called_computations
            arguments = zip(callee.parameters, value.operands, strict=True)
            lying = {p: order_of(x, lying) for p, x in arguments if x.shape.is_array}
            value = callee.root
        elif opcode == "get-tuple-element" and value.operands[0].opcode == "tuple":
            value = value.operands[0].operands[value["index"]]
        elif opcode == "custom-call" and value["custom_call_target"] == "LayoutConstraint":
            return value.shape.major_to_minor
        elif OPCODES[opcode].elementwise or (opcode == "custom-call" and value["custom_call_target"] in _MARKS):
            full = [x for x in value.operands if x.shape.dims == value.shape.dims and x.opcode not in _ANYWHERE]
            if not full:
                break
            value = full[0]
        else:
            break
    return lying.get(value, tuple(range(value.shape.rank)))
