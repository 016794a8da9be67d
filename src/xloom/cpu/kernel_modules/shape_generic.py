"""Kernels whose machine code serves many shapes: found by what they are apart from their sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xloom.compilation_cache.cache import Cache, key_of
from xloom.compilation_cache.shipped import shipped
from xloom.cpu.kernel_modules.form import ShapeGenericProblem
from xloom.cpu.kernel_modules.kernel import Kernel, Phase
from xloom.llvm import jit
from xloom.llvm.formula_tree import FormulaTree
from xloom.llvm.module_partitioning import parts_of
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.symbolic_dimension import number
from xloom.llvm.target import Target

_MOST = 1 << 10
"""Nodes of the tree of a form, with more of which it begins anew."""

kept = Cache()
"""By form: the kernels that there are, as a tree of their formulas."""


def _parts(form: ShapeGenericProblem, target: Target) -> tuple[bytes, bytes]:
    return target.key, form.text.encode()


class CompiledModule(NamedTuple):
    """Machine code of a kernel module."""

    name: str
    pipeline: PassPipeline
    objects: tuple[bytes, ...]


@dataclass(frozen=True)
class ShapeGenericKernel:
    """A kernel for one shape."""

    name: str
    objects: tuple[bytes, ...]
    """Its machine code."""
    needed: tuple[CompiledModule, ...]
    """That of functions which it calls."""
    table: tuple[int, ...]
    phases: list[Phase]
    scratch: tuple[int, ...]
    pipeline: PassPipeline


def find_kernel(form: ShapeGenericProblem, target: Target) -> ShapeGenericKernel | None:
    """The kernel that was made for another shape and serves this one too: here, or with the package."""
    parts = _parts(form, target)
    found = _serving(form, kept.get(key_of(*parts)), jit.object_cache.get)
    if found is None and (entries := shipped(target.name)):
        found = _serving(form, entries.get(entries.key_of(*parts)), entries.get)
    return found


def _serving(
    form: ShapeGenericProblem, data: bytes | None, code_by_key: Callable[[str], bytes | None]
) -> ShapeGenericKernel | None:
    """The kernel among those in `data` that serves a shape."""
    found = FormulaTree(data).find(form.values) if data else None
    if found is None:
        return None
    (table, counts, grains, scratch), (functions, parts) = found
    codes = []
    for name, pipeline, keys in parts:
        present = [code_by_key(key) for key in keys]
        objects = tuple(data for data in present if data is not None)
        if len(objects) < len(keys):
            return None
        codes.append(CompiledModule(name, PassPipeline(pipeline), objects))
    phases = [
        Phase(symbol, count, grain, tuple(loops), block)
        for (symbol, loops, block), count, grain in zip(functions, counts, grains, strict=True)
    ]
    own, *needed = codes
    return ShapeGenericKernel(own.name, own.objects, tuple(needed), tuple(table), phases, tuple(scratch), own.pipeline)


def remember_kernel(
    form: ShapeGenericProblem, kernel: Kernel, modules: Mapping[str, tuple[str, PassPipeline]], made: Sequence[Phase]
) -> None:
    """Keeps a kernel for other shapes, whose `modules` (IR and pipeline by name, itself first) are being compiled.

    Its phases were `made` for this shape.
    """
    assert kernel.sizes is not None
    phases = kernel.phases
    formula = kernel.sizes.formula([p.count for p in phases], [p.grain for p in phases], kernel.scratch)
    parts = [
        (name, pipeline.value, [jit.object_key(part, pipeline, kernel.target) for part in parts_of(text)])
        for name, (text, pipeline) in modules.items()
    ]
    key = key_of(*_parts(form, kernel.target))
    tree = FormulaTree(kept.get(key) or b"")
    if len(tree) >= _MOST:
        tree = FormulaTree()
    tree.add(formula, [[(p.symbol, p.loops, p.block) for p in made], parts])
    kept.put(key, tree.data)


def for_shape(kernel: Kernel) -> tuple[list[Phase], list[int]]:
    """A kernel's phases and scratch memory, with the numbers of the shape that it was made for."""
    phases = [Phase(p.symbol, number(p.count), number(p.grain), p.loops, p.block) for p in kernel.phases]
    return phases, [number(n) for n in kernel.scratch]
