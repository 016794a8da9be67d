"""Machine code that threads run until the process is gone."""

from __future__ import annotations

import llvmlite.binding as llvm

from xloom.llvm import jit
from xloom.llvm.target import process_target


def pinned_code(source: str, exports: tuple[str, ...]) -> list[int]:
    """The addresses of functions of LLVM IR `source`, which outlive every Python object."""
    # optimised, loops are shared as fast, and LLVM takes five times as long
    code = jit.process_code(source, jit.PassPipeline.CALLERS)
    library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for name in exports:
        library.export_symbol(name)
    # LLVM's other linker may map sections further apart than addresses of 32 bits reach, and ends the process then
    compiler = llvm.create_lljit_compiler(jit.target_machine(process_target()), use_jit_link=True)
    linked = library.link(compiler, exports[0])
    addresses = [linked[name] for name in exports]
    linked.detach()
    compiler.detach()
    return addresses
