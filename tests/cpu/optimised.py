"""LLVM IR after LLVM's passes, to look at."""

from __future__ import annotations

import llvmlite.binding as llvm

from xloom.llvm import jit
from xloom.llvm.target import process_target


def optimised(text: str) -> llvm.ModuleRef:
    """The module of LLVM IR `text` after the passes that loops get."""
    passes = jit.PASSES[jit.PassPipeline.LOOPS]
    module = llvm.parse_assembly(
        text.replace(jit._NO_TARGET, jit.target_header(process_target()), 1), llvm.create_context()
    )
    options = llvm.create_pipeline_tuning_options(speed_level=passes.level)
    options.loop_vectorization, options.loop_unrolling = passes.vectorise, passes.unroll
    builder = llvm.create_pass_builder(jit.target_machine(process_target()), options)
    builder.getModulePassManager().run(module, builder)
    return module
