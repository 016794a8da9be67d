"""How much arithmetic an instruction takes, roughly, as XLA's cost analysis counts it."""

from __future__ import annotations

from math import prod

from xloom.hlo.instruction import Instruction

_EVERY_ELEMENT_OF_THE_INPUT = frozenset({"reduce", "reduce-window", "select-and-scatter", "scatter"})
_MOVES = frozenset({"parameter", "constant", "iota", "tuple", "get-tuple-element", "broadcast", "reshape", "transpose"})
_MOVES |= {"slice", "reverse", "concatenate", "pad", "copy", "bitcast", "bitcast-convert", "gather", "dynamic-slice"}
_MOVES |= {"dynamic-update-slice"}


def flops(instruction: Instruction) -> int:
    """Arithmetic operations of an instruction alone, without those of computations that it calls."""
    shape = instruction.shape
    if not shape.is_array or instruction.opcode in _MOVES:
        return 0
    operands = instruction.operands
    if instruction.opcode == "dot":
        return 2 * shape.size * prod(operands[0].shape.dims[d] for d in instruction["lhs_contracting_dims"])
    if instruction.opcode == "convolution":
        kernel = operands[1].shape
        outputs = kernel.dims[instruction["dim_labels"].kernel_output_feature] if kernel.rank else 1
        return 2 * shape.size * kernel.size // max(1, outputs)
    if instruction.opcode in _EVERY_ELEMENT_OF_THE_INPUT:
        return operands[0].shape.size
    return shape.size
