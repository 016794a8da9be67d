"""What a reduction makes smaller."""

from __future__ import annotations

import numpy as np

from xloom.hlo.attributes import Metadata
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module, ModuleConfig
from xloom.hlo.shape import Shape

Size = tuple[int, int, int, int, int]


def size(module: Module) -> Size:
    """Instructions, sizes of their arrays, what is said of them, numbers in constants, types; the first counts most."""
    instructions = list(module.instructions)
    return (
        len(instructions),
        sum(_extent(i.shape) for i in instructions),
        sum(map(_said, instructions)) + _said_in_header(module),
        sum(_numbers(i) for i in instructions if i.opcode == "constant" and i.shape.is_array),
        sum(plainness(leaf.dtype) for i in instructions for _, leaf in i.shape.leaves() if leaf.is_array),
    )


def plainness(dtype: DType) -> int:
    """Less of a type that says less: of fewer bits, and of integers."""
    return 2 * dtype.bits + (not dtype.is_integer) if dtype.name != "pred" else 0


def _extent(shape: Shape) -> int:
    return sum(1 + leaf.rank + sum(leaf.dims) for _, leaf in shape.leaves())


def _said(instruction: Instruction) -> int:
    return (
        len(instruction.attrs)
        + len(instruction.frontend_attributes)
        + bool(instruction.backend_config)
        + (instruction.sharding is not None)
        + (instruction.metadata != Metadata())
        + len(instruction.control_predecessors)
    )


def _said_in_header(module: Module) -> int:
    plain = vars(ModuleConfig())
    said = sum(value != plain[name] for name, value in vars(module.config).items())
    return said + bool(module.frontend_attributes) + (module.stack_frames is not None)


def _numbers(constant: Instruction) -> int:
    """How many are not 0; of one integer, how large it is."""
    value = constant.literal.value
    if value.size == 1 and constant.shape.dtype.is_integer:
        return abs(int(value.reshape(())))
    wide = value.astype(np.complex128)
    return int(2 * np.count_nonzero(wide) - np.count_nonzero(wide == 1))
