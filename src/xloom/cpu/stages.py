"""The stages of this backend: what each takes and gives, and what `xloom opt --emit` prints after it."""

from __future__ import annotations

from xloom.codegen.stage import Stage

STAGES = (
    Stage(
        "prepare", "Module", "Module", "cpu/prepare.py", ("prepared",),
        "passes that every compilation begins with: simplified HLO without calls, products with their operands",
    ),
    Stage(
        "schedule", "Module", "ScheduledComputation", "codegen/schedule/thunks.py", (),
        "fusion groups, kernels and control flow as thunks, in the order in which they run",
    ),
    Stage(
        "allocate", "ScheduledComputation", "BufferAssignment", "codegen/buffers/assignment.py", ("schedule", "memory"),
        "memory for every array: arguments, results, constants, the arena, the stack",
    ),
    Stage(
        "lower", "BufferAssignment", "EmittedProgram", "cpu/entry/function.py", ("loops", "loop-ir", "llvm"),
        "LLVM IR: the entry function, and a module per kernel",
    ),
    Stage(
        "generate", "EmittedProgram", "SerializedExecutable", "llvm/object_files.py", ("asm",),
        "machine code, made of each module as soon as it is there",
    ),
    Stage(
        "link", "SerializedExecutable", "LinkedExecutable", "llvm/jit.py", (),
        "the objects in this process, with what they call",
    ),
)  # fmt: skip
