"""A kernel as its callers see it: the symbols of its phases, and the scratch memory that they need."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xloom.cpu.kernel_modules.choices import Choice
from xloom.cpu.kernel_modules.kernel import Kernel, Phase
from xloom.cpu.kernel_modules.shape_generic import for_shape
from xloom.llvm.pass_pipeline import PassPipeline

PLACEHOLDER = "xloom.kernel"
"""What functions are called until their module has a name."""


@dataclass(frozen=True)
class KernelCode:
    """A kernel that can be called on any arrays of its shapes: phase by phase, or all of it by `symbol`."""

    module_name: str
    phases: list[Phase]
    scratch: tuple[int, ...]
    symbol: str = ""
    sizes: tuple[int, ...] = ()
    """The table of a kernel that serves many shapes."""
    tables: bytes = b""
    """Constants that it reads, which others of its form have not."""
    choices: tuple[Choice, ...] = ()
    """How it was written; none where that was in another program."""

    @property
    def unshared(self) -> KernelCode:
        """The same where one thread is to do all items."""
        return replace(self, phases=[replace(p, grain=max(p.grain, p.count)) for p in self.phases])


def code_of(text: str, phases: Sequence[Phase], scratch: Sequence[int], pipeline: PassPipeline) -> KernelCode:
    """The kernel that LLVM IR `text` is: only equal ones have the same name."""
    name = f"k{hashlib.sha256(f'{pipeline.value} {text}'.encode()).hexdigest()[:24]}"
    return KernelCode(name, [replace(p, symbol=p.symbol.replace(PLACEHOLDER, name)) for p in phases], tuple(scratch))


def sized_code_of(text: str, kernel: Kernel) -> KernelCode:
    """The kernel that LLVM IR `text` is, of one that serves other shapes too, for its own shape."""
    assert kernel.sizes is not None
    return replace(code_of(text, *for_shape(kernel), kernel.pipeline), sizes=tuple(kernel.sizes.loaded))
