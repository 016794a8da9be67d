"""Machine code that threads run until the process is gone."""

from __future__ import annotations

import llvmlite.binding as llvm

from xloom.llvm import jit


def compile_to_stay(source: str, exports: tuple[str, ...]) -> list[int]:
    """The addresses of functions of LLVM IR `source`, which outlive every Python object."""
    library = (
        llvm.JITLibraryBuilder().add_object_img(jit.object_code(source, jit.PassPipeline.VECTORS)).add_current_process()
    )
    for name in exports:
        library.export_symbol(name)
    compiler = llvm.create_lljit_compiler(jit.target_machine())
    code = library.link(compiler, exports[0])
    addresses = [code[name] for name in exports]
    code.detach()
    compiler.detach()
    return addresses
