"""StableHLO that jaxlib's converter to HLO gets wrong, refuses or dies of, rewritten into what it takes."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np

from xloom.errors import ParseError, UnsupportedError
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.hlo.module import Module
from xloom.stablehlo.bindings import Bindings

# the converter's own rounding of quantized arithmetic is not that of the specification
_QUANTIZED = "builtin.module(func.func(stablehlo-legalize-quant-to-math))"
# dynamic forms whose shapes are known after all
_STATIC = "builtin.module(func.func(stablehlo-canonicalize-dynamism),stablehlo-refine-shapes)"

_SIX_BIT = {"f6E2M3FN": ml_dtypes.float6_e2m3fn, "f6E3M2FN": ml_dtypes.float6_e3m2fn}
_EMPTY_SIX_BIT = re.compile(r"<(?:\d+x)*0x(?:\d+x)*f6E")
_BYTES = re.compile(r'"0x([0-9A-Fa-f]*)"')
_NUMBER = re.compile(r"-?\d[\d.]*(?:[eE][-+]?\d+)?")
_CARRIER = "xloom.six_bit_constant"
_GUARD = "xloom.constant"


def legalize(bindings: Bindings, module: Any, text: str) -> None:
    """Rewrites `module` in place, whose text tells what to look for.

    Raises ParseError and UnsupportedError for programs that cannot become HLO.
    """
    _refuse_other_than_one_block(module)
    if "!quant" in text:
        bindings.run_passes(module, _QUANTIZED)
    if "call @" in text:
        _refuse_recursion(bindings, module)
    if "f6E" in text:
        if _EMPTY_SIX_BIT.search(text):
            hint = "leave them out: they hold nothing"
            raise UnsupportedError("jaxlib cannot convert empty arrays of 6-bit floats", hint=hint)
        _hide_constants(bindings, module)
    if "i1>" in text:
        _add_booleans(bindings, module)


def make_static(bindings: Bindings, module: Any) -> None:
    """Replaces dynamic forms of static shape by static ones."""
    bindings.run_passes(module, _STATIC)


def restore_constants(module: Module) -> None:
    """Puts the constants that `legalize` hid from the converter back."""
    for instruction in list(module.instructions):
        if instruction.opcode != "custom-call" or instruction.parent is None:
            continue
        target = instruction["custom_call_target"]
        if target == _GUARD:
            instruction.parent.replace(instruction, instruction.operands[0])
        elif target == _CARRIER:
            shape = instruction.shape
            array = np.frombuffer(bytes.fromhex(instruction.backend_config), shape.dtype.numpy).reshape(shape.dims)
            constant = Instruction("constant", "constant", shape, (), {"literal": Literal(shape, array)})
            instruction.parent.replace(instruction, constant)


def _element_type(bindings: Bindings, value: Any) -> str:
    return str(bindings.ir.ShapedType(value.type).element_type)


def _hide_constants(bindings: Bindings, module: Any) -> None:
    # the converter aborts on 6-bit constants, those that it computes itself included: they travel as the bytes of a
    # custom call, and a custom call keeps others from being folded
    ir = bindings.ir
    for constant in bindings.operations(module.operation, "stablehlo.constant"):
        result = constant.results[0]
        attributes = {"has_side_effect": ir.BoolAttr.get(True)}
        dtype = _SIX_BIT.get(_element_type(bindings, result))
        if dtype is None:
            attributes["call_target_name"] = ir.StringAttr.get(_GUARD)
            operands = [result]
        else:
            attributes["call_target_name"] = ir.StringAttr.get(_CARRIER)
            values = _six_bit_values(str(constant.attributes["value"]), dtype)
            size = int(np.prod(ir.ShapedType(result.type).shape, dtype=np.int64))
            values = np.repeat(values, size) if len(values) == 1 else values
            attributes["backend_config"] = ir.StringAttr.get(values.tobytes().hex())
            operands = []
        with ir.InsertionPoint(constant), constant.location:
            call = ir.Operation.create(
                "stablehlo.custom_call", results=[result.type], operands=operands, attributes=attributes
            )
        result.replace_all_uses_with(call.result)
        if operands:
            call.operands[0] = result  # which was replaced as well
            call.move_after(constant)
        else:
            constant.erase()


def _six_bit_values(attribute: str, dtype: Any) -> np.ndarray:
    digits = attribute.rpartition(" : ")[0]
    packed = _BYTES.search(digits)
    if packed:
        return np.frombuffer(bytes.fromhex(packed[1]), np.uint8).view(dtype)
    return np.array([float(number) for number in _NUMBER.findall(digits)]).astype(dtype)


def _add_booleans(bindings: Bindings, module: Any) -> None:
    # the converter folds true + true to false
    for add in bindings.operations(module.operation, "stablehlo.add"):
        result = add.results[0]
        if _element_type(bindings, result) == "i1":
            with bindings.ir.InsertionPoint(add), add.location:
                either = bindings.ir.Operation.create(
                    "stablehlo.or", results=[result.type], operands=list(add.operands)
                )
            result.replace_all_uses_with(either.result)
            add.erase()


def _refuse_other_than_one_block(module: Any) -> None:
    # the converter would read a block that is not there, or end the process
    for function in module.body:
        operation = function.operation
        if operation.name == "func.func" and (count := len(list(operation.regions[0].blocks))) != 1:
            name = operation.attributes["sym_name"].value
            found = f"{count} blocks" if count else "no body"
            raise ParseError(f"@{name} has {found}", hint="a function of StableHLO has a body of one block")


def _refuse_recursion(bindings: Bindings, module: Any) -> None:
    # the converter would call itself for ever
    calls: dict[str, set[str]] = {}
    for function in module.body:
        if function.operation.name == "func.func":
            called = bindings.operations(function.operation, "func.call")
            name = function.operation.attributes["sym_name"].value
            calls[name] = {call.attributes["callee"].value for call in called}
    # take out functions that call none of those left, until all that is left is on a cycle or calls into one
    while done := [name for name, callees in calls.items() if not callees & calls.keys()]:
        for name in done:
            del calls[name]
    if calls:
        hint = "write loops as stablehlo.while"
        raise ParseError(f"functions that call themselves have no HLO: @{', @'.join(sorted(calls))}", hint=hint)
