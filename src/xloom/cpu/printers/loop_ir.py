"""A program's loop nests in the loop IR's own text, which is also what equal kernels are found by."""

from __future__ import annotations

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.loop_ir.nest import loaded_values
from xloom.codegen.loop_ir.text import nest_text
from xloom.codegen.schedule.thunks import roots_of
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.cpu.printers.names import array_name
from xloom.hlo.module import Module
from xloom.llvm.target import Target, process_target


def loop_ir_text(module: Module, target: Target | None = None) -> str:
    """Each nest of the program that `module` is compiled to, after the arrays that it works on.

    Raises LoweringError for what has no native code.
    """
    _, _, program = lowered(prepared(module, target=target), target or process_target())
    parts = []
    for thunk, code in program.code.items():
        if code.nest is None:
            continue
        nest = code.nest
        stored = [s.target for stage in nest.stages for s in stage.stores]
        numbers: dict[BufferValue, int] = {}
        for value in (*loaded_values(nest), *stored):
            if value not in nest.private:
                numbers.setdefault(value, len(numbers))
        made = ", ".join(f"%{i.name}" for i in roots_of(thunk))
        names = ", ".join(f"#{number} {array_name(value)}" for value, number in numbers.items())
        parts.append(f"// {made}: {names}\n{nest_text(nest, numbers)}\n")
    return "\n".join(parts)
