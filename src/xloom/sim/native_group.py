"""Instructions that the CPU's native code does for a device, on arrays in the device's memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xloom.cpu.compile import compile as compile_for_cpu
from xloom.cpu.runtime.executable import Executable
from xloom.hlo.excerpt import excerpt
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.interpreter.nested_values import leaves
from xloom.interpreter.registry import Value


class NativeGroup:
    """Instructions of one computation, operands first, as one native program."""

    def __init__(self, instructions: Sequence[Instruction], beside: Sequence[Instruction]):
        """`beside` are what these read and what others make, too, as it costs nothing: constants, say."""
        self.instructions = instructions
        inside = set(instructions)
        outputs = [i for i in instructions if i.is_root or not i.users or not inside.issuperset(i.users)]
        taken = excerpt([*beside, *instructions], f"native.{instructions[-1].name}", outputs)
        module, self.operands, self.outputs = taken
        compiled = compile_for_cpu(module, check=())  # of all of the program, not of groups
        assert isinstance(compiled, Executable)  # dynamic sizes and several devices are not for groups
        self._executable = compiled
        self.reads, self.writes = self._moved()
        """Bytes that each instruction reads from memory, and writes there; each array is read once."""

    def run(self, values: Mapping[Instruction, Value], take: Callable[[int], np.ndarray]) -> list[Value]:
        """The outputs for the operands' values, in memory that `take` gives."""
        given = [np.asarray(leaf, order="C") for o in self.operands for leaf in leaves(values[o])]
        made = [_made(output.shape, take) for output in self.outputs]
        self._executable.call_into(given, [leaf for value in made for leaf in leaves(value)])
        return made

    def _moved(self) -> tuple[dict[Instruction, int], dict[Instruction, int]]:
        reads, writes = dict.fromkeys(self.instructions, 0), dict.fromkeys(self.instructions, 0)
        read = set(self.instructions)
        for instruction in self.instructions:
            for operand in instruction.operands:
                if operand not in read:
                    read.add(operand)
                    reads[instruction] += operand.shape.nbytes
        for output in self.outputs:
            writes[output] += output.shape.nbytes
        return reads, writes


def _made(shape: Shape, take: Callable[[int], np.ndarray]) -> Value:
    if shape.is_tuple:
        return tuple(_made(each, take) for each in shape.elements)
    dtype = shape.dtype.numpy
    return take(shape.nbytes)[: shape.nbytes].view(dtype).reshape(shape.dims)
