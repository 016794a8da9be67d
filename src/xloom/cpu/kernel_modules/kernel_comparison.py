"""What a program's kernels are compared with where shared code is checked: see `shared_code`."""

from __future__ import annotations

from functools import partial

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel_code import PLACEHOLDER, KernelCode
from xloom.cpu.kernel_modules.shape_generic import ShapeGenericKernel
from xloom.cpu.loops.lowering import Lowering
from xloom.llvm import jit
from xloom.llvm.module_partitioning import parts_of
from xloom.llvm.module_text import module_text
from xloom.llvm.shared_code import compare, compare_object, note_written, written
from xloom.llvm.target import Target


class KernelChecks:
    """Compares each use of a kernel with the first one, or with what another program has made."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._nests: dict[str, str] = {}

    def nest(self, key: str, module: ir.Module, lowering: Lowering) -> None:
        """A loop nest, written anew."""
        numbers = [(p.count, p.grain, p.block) for p in lowering.phases]
        text = f"{numbers} {lowering.scratch}\n{module_text(module)}"
        first = self._nests.setdefault(key, text)
        if first is not text:
            stored = {s.target[0].name for stage in lowering.nest.stages for s in stage.stores}
            compare("loop nest", ", ".join(sorted(stored)), first, text)

    def written(self, code: KernelCode, text: str) -> None:
        """LLVM IR of a kernel that others may find."""
        note_written(code.module_name, text)

    def kernel(self, name: str, shared: KernelCode, anew: KernelCode) -> None:
        """A kernel of an instruction, found by its key."""
        first, text = written(shared.module_name), written(anew.module_name)
        compare("kernel", name, f"{_outline(shared)}\n{first}", f"{_outline(anew)}\n{text}")

    def sized(self, form: str, shared: KernelCode, known: ShapeGenericKernel, anew: KernelCode, text: str) -> None:
        """A kernel that was made for other sizes, or in another process, and is written anew for these."""
        compare("kernel of many sizes", form, written(shared.module_name) or text, text)
        compare("kernel of many sizes", form, _outline(shared), _outline(anew))
        for part, data in zip(parts_of(text.replace(PLACEHOLDER, anew.module_name)), known.objects, strict=True):
            made = part, known.pipeline, self._target
            compare_object(jit.object_key(*made), data, partial(jit.made_anew, *made))


def _outline(code: KernelCode) -> str:
    phases = [(p.symbol, p.count, p.grain, p.block) for p in code.phases]
    return f"{code.module_name} {phases} {code.scratch} {code.sizes}"
