"""What is made of a module: prepared HLO, and each kernel as LLVM IR, as PTX and as machine code."""

from __future__ import annotations

from collections.abc import Callable

from xloom.cuda.kernel import DeviceKernel
from xloom.cuda.lower import lowered
from xloom.cuda.prepare import prepared
from xloom.cuda.ptx import ptx_of
from xloom.cuda.ptxas import assembled, sass_of
from xloom.hlo.module import Module
from xloom.llvm.target import Target


def prepared_text(module: Module, target: Target) -> str:
    """The module that is lowered."""
    return prepared(module).to_text()


def llvm_text(module: Module, target: Target) -> str:
    """The LLVM IR of all kernels, before LLVM's passes. Raises LoweringError for what has no kernels."""
    return _text(module, target, ";", lambda kernel: kernel.text)


def ptx_text(module: Module, target: Target) -> str:
    """The PTX of all kernels, each a module of its own. Raises LoweringError for what has no kernels."""
    return _text(module, target, "//", lambda kernel: ptx_of(kernel, target))


def sass_text(module: Module, target: Target) -> str:
    """The machine code of all kernels, as NVIDIA's disassembler shows it.

    Raises MissingExtraError without ptxas or nvdisasm, LoweringError for what has no kernels.
    """
    return _text(module, target, "//", lambda kernel: sass_of(assembled(ptx_of(kernel, target), target).cubin))


def _text(module: Module, target: Target, comment: str, shown: Callable[[DeviceKernel], str]) -> str:
    parts = []
    for number, (kernel, launches) in enumerate(lowered(module, target).kernels.items()):
        makes = "; ".join(dict.fromkeys(launch.makes for launch in launches))
        parts.append(f"{comment} kernel {number}: {makes}\n{comment} {kernel.strategy}\n{shown(kernel)}")
    return "\n".join(parts)
