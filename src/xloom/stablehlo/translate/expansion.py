"""Functions of elements by the expansion that jaxlib has for them, which is asked for once for a scalar."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.hlo.proto.decoder import decode
from xloom.hlo.shape import Shape
from xloom.stablehlo.bindings import load_bindings
from xloom.stablehlo.translate.rules import NotTranslatedError
from xloom.stablehlo.translate.scope import Scope


def expand(s: Scope, op: Any) -> None:
    """Translates an elementwise operation without attributes.

    Raises NotTranslatedError where the expansion is no function of elements.
    """
    operands = s.values(op.operands)
    (result,) = op.results
    shape = s.shape(result)
    if any(x.shape.dims != shape.dims for x in operands):
        raise NotTranslatedError("operands of other shapes")
    elements = [str(v.type.element_type) for v in (*op.operands, result)]
    known: dict[Instruction, Instruction] = {}
    entry = _expansion(op.operation.name, *elements).entry
    for instruction in entry.post_order():
        known[instruction] = _widened(s, instruction, shape.dims, known, operands)
    s.define(result, known[entry.root])


def _widened(
    s: Scope,
    scalar: Instruction,
    dims: tuple[int, ...],
    known: dict[Instruction, Instruction],
    operands: list[Instruction],
) -> Instruction:
    """An instruction of the expansion, for all elements."""
    if scalar.opcode == "parameter":
        return operands[scalar["parameter_number"]]
    shape = Shape(scalar.shape.dtype, dims).with_default_layout()
    if scalar.opcode == "constant":
        constant = s.add("constant", scalar.shape, (), dict(scalar.attrs), "constant")
        return s.add("broadcast", shape, [constant], {"dimensions": ()}, "broadcast") if dims else constant
    if not scalar.op.elementwise and scalar.opcode != "bitcast-convert":
        raise NotTranslatedError(f"an expansion with {scalar.opcode}")
    return s.add(scalar.opcode, shape, [known[o] for o in scalar.operands], dict(scalar.attrs))


@lru_cache(maxsize=256)
def _expansion(name: str, *elements: str) -> Module:
    """What jaxlib makes of an operation of scalars of these types, the last that of the result."""
    *given, result = (f"tensor<{element}>" for element in elements)
    names = [f"%a{k}" for k in range(len(given))]
    taken = ", ".join(f"{name}: {kind}" for name, kind in zip(names, given, strict=True))
    text = (
        f"func.func @main({taken}) -> {result} {{\n"
        f'  %r = "{name}"({", ".join(names)}) : ({", ".join(given)}) -> {result}\n  return %r : {result}\n}}'
    )
    bindings = load_bindings()
    module = bindings.ir.Module.parse(text)
    try:
        computation = bindings.to_computation(bindings.to_bytecode(module))
    except Exception as error:  # MLIRError and XlaRuntimeError have no common base that is public
        raise NotTranslatedError(name) from error
    return decode(computation.as_serialized_hlo_module_proto())
