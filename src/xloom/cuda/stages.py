"""The stages of this backend, as `cpu/stages.py` says of its own."""

from __future__ import annotations

from xloom.codegen.stage import Stage

STAGES = (
    Stage(
        "prepare", "Module", "Module", "codegen/preparation.py", ("prepared",),
        "passes that every compilation begins with: simplified HLO without calls",
    ),
    Stage(
        "schedule", "Module", "ScheduledComputation", "codegen/schedule/thunks.py", (),
        "fusion groups, kernels and control flow as thunks, in the order in which they run",
    ),
    Stage(
        "allocate", "ScheduledComputation", "BufferAssignment", "codegen/buffers/assignment.py", (),
        "memory for every array: arguments, results, constants, the arena",
    ),
    Stage(
        "lower", "BufferAssignment", "DeviceProgram", "cuda/lower.py", ("launches", "llvm"),
        "a list of launches, copies, loops and branches, and the kernels as LLVM IR",
    ),
    Stage(
        "generate", "DeviceKernel", "PTX", "cuda/ptx.py", ("ptx",),
        "NVIDIA's assembly of each kernel",
    ),
    Stage(
        "assemble", "PTX", "cubin", "cuda/run_time/images.py", ("sass",),
        "machine code by ptxas, kept as the processor's is; without ptxas by the driver, each time",
    ),
)  # fmt: skip
