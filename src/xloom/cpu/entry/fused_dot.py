"""Thunks that are a product whose operand is made as it is needed, or whose sums are not stored: two functions each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.elemental.loop_nests import nest_for
from xloom.codegen.loop_ir.nest import loaded_values
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.entry.emitted_program import ThunkCode
from xloom.cpu.kernels import rule_of
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, accumulator
from xloom.cpu.loops.panel_function import LINES
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.target import Target

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder

_FEW, _FEW_TURNED = 8, 6
"""Rows, with which a product waits for memory; where tiles of the matrix could be read along its own rows, too."""


def fused_dot(entry: EntryBuilder, schedule: ScheduledComputation, fusion: Instruction) -> None:
    """Calls the kernel of the product, which computes its operands or gives its sums to the root."""
    dot = fusion["calls"].root
    if dot.opcode != "dot":
        _with_epilogue(entry, fusion)
        return
    rule = rule_of(dot.opcode)
    assert rule is not None
    pointers: list[ir.Value] = []
    shapes: list[Shape] = []
    made: set[int] = set()
    for number, operand in enumerate(dot.operands):
        read = operand.operands[0] if operand.opcode == "convert" else operand
        if read.opcode == "parameter" and (read is operand or _is_loaded(operand, dot, entry.target)):
            pointers.append(_pointer(entry, fusion, (read, 0)))
            shapes.append(read.shape)
        else:
            pointers.append(_made(entry, fusion, operand))
            shapes.append(operand.shape)
            made.add(number)
    _, code = entry.kernel_modules.of_rule(dot, rule, frozenset(), shapes, frozenset(made))
    entry.call(code, [*pointers, entry.of((fusion, 0))])
    entry.program.code[fusion] = ThunkCode(code.module_name, code.phases, choices=code.choices)


def _with_epilogue(entry: EntryBuilder, fusion: Instruction) -> None:
    """Calls the kernel of a product whose sums the root is computed of."""
    inside = fusion["calls"]
    product = next(i for i in inside if i.opcode in ("dot", "convolution"))
    rule = rule_of(product.opcode)
    assert rule is not None
    shapes = [o.shape for o in product.operands]
    _, code = entry.kernel_modules.of_rule(product, rule, frozenset(), shapes, has_epilogue=True)
    inlined = {i for i in inside if i.opcode != "parameter" and i not in (product, inside.root)}
    nest, sums = nest_for([[inside.root]], inlined), (product, 0)
    arrays = [value for value in loaded_values(nest) if value != sums]
    numbers = {value: number for number, value in enumerate([(inside.root, 0), *arrays])}
    function = entry.declared(entry.kernel_modules.of_lines(nest, numbers, sums), LINES)
    pointers = [_pointer(entry, fusion, (operand, 0)) for operand in product.operands]
    result = entry.of((fusion, 0))
    context = entry.table([function, result, *(_pointer(entry, fusion, value) for value in arrays)])
    entry.call(code, [*pointers, context])
    entry.program.code[fusion] = ThunkCode(code.module_name, code.phases, choices=code.choices)


def _is_loaded(convert: Instruction, dot: Instruction, target: Target) -> bool:
    """True when the product converts elements as it loads them, and that is all there is to it."""
    source, wanted = convert.operands[0].shape.dtype, convert.shape.dtype
    arithmetic = Arithmetic(accumulator(dot.shape.dtype), target)
    if not arithmetic.loads(source):
        return False
    if wanted is arithmetic.dtype:
        return True
    # what is multiplied in pairs had better come in pairs, unless it is waited for
    side = "lhs" if dot.operands[0] is convert else "rhs"
    is_turned = target.has_tiles and dot[f"{side}_contracting_dims"] == (convert.shape.rank - 1,)
    few = (_FEW_TURNED if is_turned else _FEW) * max(dot.shape.dims, default=1)
    return source.bits <= 8 and wanted.is_float and dot.shape.size <= few


def _pointer(entry: EntryBuilder, fusion: Instruction, value: BufferValue) -> ir.Value:
    return entry.of((fusion.operands[value[0]["parameter_number"]], value[1]))


def _made(entry: EntryBuilder, fusion: Instruction, operand: Instruction) -> ir.Value:
    """What the kernel calls: a function of its own for the operand, and where the arrays are that it reads."""
    inlined = {i for i in fusion["calls"] if i.opcode not in ("parameter", "dot") and i is not operand}
    nest = nest_for([[operand]], inlined)
    arrays = loaded_values(nest)
    symbol = entry.kernel_modules.of_lines(nest, {value: number for number, value in enumerate(arrays)}, (operand, 0))
    function = entry.declared(symbol, LINES)
    return entry.table([function, *(_pointer(entry, fusion, value) for value in arrays)])
