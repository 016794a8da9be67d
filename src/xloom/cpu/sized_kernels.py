"""Kernels whose machine code serves many shapes: found by what they are apart from their sizes."""

from __future__ import annotations

import marshal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from xloom.cpu import jit
from xloom.cpu.cache import Cache, key_of
from xloom.cpu.content import Content
from xloom.cpu.emit.sizes import Sizes, number
from xloom.cpu.kernel import Kernel, Phase
from xloom.cpu.module_parts import parts_of
from xloom.hlo.module import Instruction
from xloom.hlo.shape import Shape

SIZED = frozenset({"dot", "convolution"})
"""Opcodes whose rules compute with sizes that they do not know."""
_LEAST = 16
"""Smaller dimensions are part of the code, whose loops over them are unrolled."""
_MOST = 64
"""Kernels of one form that are remembered."""
_SPACE = {"__builtins__": {"min": min, "max": max}}

forms = Cache()
"""By form: the kernels that there are, with the conditions for each."""


@dataclass(frozen=True)
class Form:
    """A kernel's instruction without its sizes, which are `values`."""

    key: str
    values: tuple[int, ...]
    shapes: tuple[Shape, ...]

    def with_sizes(self, sizes: Sizes) -> list[Shape]:
        """The shapes, with symbols where dimensions are not part of the form."""
        symbols = iter(sizes.symbols)
        return [Shape(s.dtype, tuple(next(symbols) if d >= _LEAST else d for d in s.dims)) for s in self.shapes]


def form_of(instruction: Instruction, shapes: Sequence[Shape]) -> Form:
    """The form of a kernel on arrays of these shapes, operands and then results."""
    known = [(s.dtype.name, [0 if d >= _LEAST else d for d in s.dims], 0 in s.dims) for s in shapes]
    text = repr((instruction.opcode, known, instruction.attrs))
    key = key_of(jit.target_key().encode(), sys.version.encode(), text.encode())
    return Form(key, tuple(d for s in shapes for d in s.dims if d >= _LEAST), tuple(shapes))


@dataclass(frozen=True)
class Sized:
    """A kernel for one shape."""

    name: str
    objects: tuple[bytes, ...]
    """Its machine code, if that is known."""
    table: tuple[int, ...]
    phases: list[Phase]
    scratch: tuple[int, ...]
    content: Content


def find(form: Form) -> Sized | None:
    """The kernel that was made for another shape and serves this one too."""
    data = forms.get(form.key)
    for code, name, symbols, keys, content in marshal.loads(data) if data else ():
        served = FunctionType(code, _SPACE)(*form.values)
        if served is None:
            continue
        objects = [jit.object_cache.get(key) for key in keys]
        if None in objects:
            return None
        table, counts, grains, scratch = served
        phases = [Phase(*row) for row in zip(symbols, counts, grains, strict=True)]
        return Sized(name, tuple(objects), table, phases, scratch, Content(content))  # type: ignore[arg-type]
    return None


def remember(form: Form, kernel: Kernel, name: str, text: str, symbols: Sequence[str]) -> None:
    """Keeps a kernel, whose machine code is being made of `text`, for other shapes."""
    assert kernel.sizes is not None
    phases = kernel.phases
    code = kernel.sizes.code([p.count for p in phases], [p.grain for p in phases], kernel.scratch)
    keys = [jit.object_key(part, kernel.content) for part in parts_of(text)]
    data = forms.get(form.key)
    rows: list[Any] = list(marshal.loads(data)) if data else []
    rows.insert(0, (code, name, list(symbols), keys, kernel.content.value))
    forms.put(form.key, marshal.dumps(rows[:_MOST]))


def for_shape(kernel: Kernel) -> None:
    """Gives a kernel's phases and scratch memory the numbers of the shape that it was made for."""
    phases = [Phase(p.symbol, number(p.count), number(p.grain), p.loops) for p in kernel.phases]
    kernel.phases, kernel.scratch = phases, [number(n) for n in kernel.scratch]
