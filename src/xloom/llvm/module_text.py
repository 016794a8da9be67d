"""The text of a module, as llvmlite writes it, in half the time: a program's instructions are many and much alike.

What is rare llvmlite writes itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as kinds

_Writer = Callable[[Any], str]


def module_text(module: ir.Module) -> str:
    """The text of an LLVM module, character for character `str(module)`, but faster."""
    header = (f'; ModuleID = "{module.name}"', f'target triple = "{module.triple}"')
    lines = [*header, f'target datalayout = "{module.data_layout}"', ""]
    lines += [kind.get_declaration() for kind in module.get_identified_types().values()]
    lines += [global_text(value) for value in module.globals.values()]
    return "\n".join([*lines, *module._get_metadata_lines()])


def global_text(value: ir.values.GlobalValue) -> str:
    """The text of a function or a global variable, character for character `str(value)`, but faster."""
    if not isinstance(value, ir.Function) or not value.blocks:
        return str(value)
    lines: list[str] = []
    value.descr_prototype(lines)
    lines.append("{\n")
    for block in value.blocks:
        lines.append(f"{block._format_name()}:\n")
        for instruction in block.instructions:
            writer = _WRITERS.get(type(instruction))
            lines.append(f"  {str(instruction) if writer is None else writer(instruction)}\n")
    lines.append("}\n")
    return "".join(lines)


def _reference(value: Any) -> str:
    if isinstance(value, ir.NamedValue):
        name = value._name
        return value.get_reference() if '"' in name or "\\" in name else f'{value.name_prefix}"{name}"'
    if type(value) is ir.Constant:
        number = value.constant
        if type(number) is int:
            return value.type.format_constant(number)
        if type(value.type) is ir.VectorType and type(number) in (list, tuple):
            alike = all(element is number[0] for element in number)
            elements = [_typed(number[0])] * len(number) if alike else map(_typed, number)
            return f"<{', '.join(elements)}>"
    return value.get_reference()


def _typed(value: Any) -> str:
    return f"{value.type.__str__()} {_reference(value)}"


def _metadata(instruction: Any) -> str:
    return instruction._stringify_metadata(leading_comma=True) if instruction.metadata else ""


def _named(i: Any, text: str) -> str:
    # llvmlite puts a space where there are no metadata, and then takes it from the end of the line
    return f"{_reference(i)} = {text}{_metadata(i)}".rstrip()


def _operator(i: Any) -> str:
    words = " ".join([i.opname, *i.flags]) if i.flags else i.opname
    operands = ", ".join([_reference(o) for o in i.operands])
    return _named(i, f"{words} {i.type.__str__()} {operands}")


def _load(i: Any) -> str:
    align = "" if i.align is None else f", align {i.align}"
    (pointer,) = i.operands
    return _named(i, f"load {i.type.__str__()}, {_typed(pointer)}{align}")


def _store(i: Any) -> str:
    value, pointer = i.operands
    align = "" if i.align is None else f", align {i.align}"
    return f"store {_typed(value)}, {_typed(pointer)}{align}{_metadata(i)}"


def _address(i: Any) -> str:
    words = "getelementptr inbounds" if i.inbounds else "getelementptr"
    indices = ", ".join([_typed(index) for index in i.indices])
    return _named(i, f"{words} {i.source_etype.__str__()}, {_typed(i.pointer)}, {indices} ")


def _cast(i: Any) -> str:
    (value,) = i.operands
    return _named(i, f"{i.opname} {_typed(value)} to {i.type.__str__()} ")


def _comparison(i: Any) -> str:
    left, right = i.operands
    words = " ".join([i.opname, *i.flags, i.op]) if i.flags else f"{i.opname} {i.op}"
    return _named(i, f"{words} {_typed(left)}, {_reference(right)} ")


def _select(i: Any) -> str:
    condition, left, right = i.operands
    return _named(i, f"select {' '.join(i.flags)} {_typed(condition)}, {_typed(left)}, {_typed(right)} ")


def _phi(i: Any) -> str:
    incomings = ", ".join([f"[{_reference(value)}, {_reference(block)}]" for value, block in i.incomings])
    return _named(i, f"phi {' '.join(i.flags)} {i.type.__str__()} {incomings} ")


def _shuffle(i: Any) -> str:
    return _named(i, f"shufflevector {', '.join([_typed(o) for o in i.operands])} ")


def _insertion(i: Any) -> str:
    return _named(i, f"{i.opname} {', '.join([_typed(o) for o in i.operands])}")


def _branch(i: Any) -> str:
    return f"{i.opname} {', '.join([_typed(o) for o in i.operands])}{_metadata(i)}"


def _call(i: Any) -> str:
    callee, *arguments = i.operands
    kind = callee.function_type
    if i.tail or i.cconv or i.attributes or i.arg_attributes or kind.var_arg:
        return str(i)
    result = kind.return_type
    flags = f" {' '.join(i.fastmath._to_list(result))}" if i.fastmath else ""
    called = f"{result.__str__()} {_reference(callee)}({', '.join([_typed(a) for a in arguments])})"
    text = f"{i.opname}{flags} {called}"
    return f"{text}{_metadata(i)}" if isinstance(result, ir.VoidType) else _named(i, text)


_WRITERS: dict[type, _Writer] = {
    kinds.Instruction: _operator,
    kinds.LoadInstr: _load,
    kinds.StoreInstr: _store,
    kinds.GEPInstr: _address,
    kinds.CastInstr: _cast,
    kinds.ICMPInstr: _comparison,
    kinds.FCMPInstr: _comparison,
    kinds.SelectInstr: _select,
    kinds.PhiInstr: _phi,
    kinds.ShuffleVector: _shuffle,
    kinds.InsertElement: _insertion,
    kinds.Branch: _branch,
    kinds.ConditionalBranch: _branch,
    kinds.CallInstr: _call,
}
