"""What a trace says of a kernel: which operators it computes, where they come from, what it moves and computes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from xloom.codegen.buffer_values import leaf_shapes
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.fusion.multi_output import Thunk
from xloom.hlo.cost import flops
from xloom.hlo.instruction import Instruction
from xloom.hlo.stack_frames import source_line

_SHOWN = 4
"""Opcodes in the name of a kernel; its details have all."""
_SILENT = frozenset({"parameter", "constant", "broadcast", "bitcast", "reshape", "tuple", "get-tuple-element"})
"""What computes nothing that a reader looks for, if there is anything else."""
_PARTS = frozenset({"slice", "dynamic-slice", "gather"})
"""What reads of its first operand only what it gives."""
_UPDATES = {"dynamic-update-slice": 1, "scatter": 2}
"""What may lie in the memory of its first operand, and then writes only this operand of it."""


def instructions_of(thunk: Thunk) -> tuple[Instruction, ...]:
    """Those whose results a thunk stores."""
    return tuple(thunk.roots) if isinstance(thunk, FusionGroup) else (thunk,)


def kernel_name(thunk: Thunk) -> str:
    """The instructions that it stores, and what it computes of: `select_n.39: compare, select, reduce`."""
    names, opcodes = ", ".join(root.name for root in instructions_of(thunk)), _opcodes(thunk)
    if len(opcodes) == 1:
        return names if names.startswith(opcodes[0]) else f"{names}: {opcodes[0]}"
    return f"{names}: {', '.join(opcodes[:_SHOWN])}{', ...' if len(opcodes) > _SHOWN else ''}"


def kernel_details(thunk: Thunk) -> dict[str, Any]:
    """The arguments of its span: what it is, where it comes from, how much it reads, writes and computes at least."""
    roots, inside = instructions_of(thunk), _inside(thunk)
    found: dict[str, Any] = {"opcode": "fusion" if len(inside) > 1 else roots[0].opcode}
    found["instructions"] = ", ".join(root.name for root in roots)
    stored_of = inside if isinstance(thunk, FusionGroup) else [thunk]
    found["bytes"] = sum(_read(set(stored_of))) + sum(_written(root) for root in roots)
    found["flops"] = sum(map(flops, roots[0]["calls"] if roots[0].opcode == "fusion" else inside))
    found["element_bytes"] = max((_element_bytes(i) for i in inside), default=0)
    if len(inside) > 1:
        found["fused"] = ", ".join(_opcodes(thunk))
    for name, texts in (("op_name", (i.metadata.op_name for i in inside)), ("source", map(source_line, inside))):
        text = next(filter(None, texts), "")  # roots come first
        if text:
            found[name] = text
    return found


def _inside(thunk: Thunk) -> list[Instruction]:
    """All that it computes: what it stores, then what that is computed of, operands first."""
    if not isinstance(thunk, FusionGroup):
        called = thunk["calls"].instructions if thunk.opcode == "fusion" else ()
        return [thunk, *(i for i in called if i.opcode != "parameter")]
    order = {i: k for k, i in enumerate(thunk.roots[0].parent.instructions)} if thunk.roots[0].parent else {}
    return [*thunk.roots, *sorted(thunk.inlined, key=lambda i: order.get(i, -1))]


def _opcodes(thunk: Thunk) -> list[str]:
    """Each once, in the order of the program."""
    roots, inside = instructions_of(thunk), _inside(thunk)
    found = list(dict.fromkeys(i.opcode for i in (*inside[len(roots) :], *roots) if i.opcode != "fusion"))
    return [opcode for opcode in found if opcode not in _SILENT] or found[-1:]


def _read(inside: Collection[Instruction]) -> Iterator[int]:
    """The bytes of each array from outside that is read, or those of its parts that are."""
    uses: dict[Instruction, int] = {}
    for instruction in inside:
        for number, operand in enumerate(instruction.operands):
            if operand in inside:
                continue
            if number == 0 and instruction.opcode in _PARTS:
                nbytes = _nbytes(instruction)
            elif number == 0 and instruction.opcode in _UPDATES:
                nbytes = 0
            else:
                nbytes = _nbytes(operand)
            uses[operand] = uses.get(operand, 0) + nbytes
    for operand, nbytes in uses.items():
        yield min(nbytes, _nbytes(operand))


def _written(root: Instruction) -> int:
    if root.opcode in _UPDATES and root.shape.is_array:
        return _nbytes(root.operands[_UPDATES[root.opcode]])
    return _nbytes(root)


def _nbytes(instruction: Instruction) -> int:
    return sum(leaf.nbytes for leaf in leaf_shapes(instruction.shape))


def _element_bytes(instruction: Instruction) -> int:
    """Of what it computes in: operands of products as they are, all else at least in f32."""
    if instruction.opcode in ("dot", "convolution"):
        return min(o.shape.dtype.bytes for o in instruction.operands)
    shape = instruction.shape
    return 8 if shape.is_array and shape.dtype.name in ("f64", "c128") else 4
