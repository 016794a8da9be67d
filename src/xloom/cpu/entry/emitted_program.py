"""Native code to be, as LLVM IR: the entry function of a program, and the kernels that it calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.fusion.multi_output import Thunk
from xloom.codegen.loop_ir.nest import LoopNest
from xloom.cpu.entry.collective_sites import CollectiveSite
from xloom.cpu.kernel_modules.choices import Choice
from xloom.cpu.kernel_modules.kernel import Phase
from xloom.hlo.instruction import Instruction
from xloom.llvm.pass_pipeline import PassPipeline

if TYPE_CHECKING:
    from xloom.cpu.custom_calls.native_call import NativeCall

DEEP = 64
"""Blocks in each other beyond which LLVM's passes take too long: their time grows as the square of loops' depth."""
_LITTLE = 64
"""Additions of an entry function that are not worth it to make its code better."""
_LONG_WITH_LOOPS = 1 << 17
"""Characters of an entry function beyond which scalar loops that are not plain stay as they are: LLVM's search for
vectors would go through all of it, and finds few in loops of which they are not obvious."""
LONG = 1 << 20
"""Characters of an entry function beyond which they take a minute."""
PARALLEL_FOR = "xloom_parallel_for"
"""What it gives kernels to that several threads do."""


@dataclass
class KernelModule:
    """A kernel's LLVM module as text, by a name that its content gives."""

    name: str
    text: str
    phases: list[Phase]
    pipeline: PassPipeline = PassPipeline.LOOPS
    objects: tuple[bytes, ...] = ()
    """Its machine code where that is known: then there is no text."""


@dataclass(frozen=True)
class ThunkCode:
    """What a thunk became: phases of a kernel module or, without a name, a part of the entry function."""

    module_name: str
    phases: list[Phase]
    nest: LoopNest | None = None
    """The loops, where it is one."""
    choices: tuple[Choice, ...] = ()
    """How it was written."""
    is_view: bool = False
    """True where nothing is done, as what it would make lies in another array."""


@dataclass
class EmittedProgram:
    """The entry function's module, the kernel modules that it calls, and what must be there when they run."""

    main: str
    modules: dict[str, KernelModule] = field(default_factory=dict)
    code: dict[Thunk, ThunkCode] = field(default_factory=dict)
    """Of loop nests and kernels."""
    calls: list[Instruction] = field(default_factory=list)
    """What calls code outside the program and may fail, in the order of their numbers."""
    native_calls: list[NativeCall] = field(default_factory=list)
    """Of custom calls, by number."""
    imports: dict[str, int] = field(default_factory=dict)
    """Addresses by symbol of what only this process has: Python functions."""
    kept: list[object] = field(default_factory=list)
    """What must live as long as the program may run."""
    aligned_results: set[int] = field(default_factory=set)
    """Results that such code sees, by number."""
    tables: dict[bytes, BufferAllocation] = field(default_factory=dict)
    """Constants of kernels, which are handed to the program after its own."""
    collectives: list[CollectiveSite] = field(default_factory=list)
    """Its thunks that other devices take part in."""
    rendezvous_bytes: int = 0
    arena_bytes: int = 0
    """Of temporary arrays and kernels' scratch memory."""
    depth: int = 0
    """The most computations in each other."""
    has_vectors: bool = True
    """The entry function's loops over elements are vectors where they pay."""
    work: int = 0
    """Additions of these loops, each once."""

    @property
    def main_pipeline(self) -> PassPipeline:
        """The pass pipeline of the entry function."""
        if not any(c.phases and not c.module_name for c in self.code.values()):
            return PassPipeline.CALLS
        if self.depth > DEEP or len(self.main) > LONG:
            return PassPipeline.CALLERS
        if not self.has_vectors and len(self.main) <= _LONG_WITH_LOOPS:
            return PassPipeline.LOOPS
        if self.depth > 1:
            return PassPipeline.STEPS
        return PassPipeline.CALLERS if self.work <= _LITTLE else PassPipeline.VECTORS
