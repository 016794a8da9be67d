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
"""Smaller dimensions are part of the code, whose loops over them are unrolled, but for images and places in them."""
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
    is_open: tuple[tuple[bool, ...], ...]
    """Which dimensions are no part of it."""

    def with_sizes(self, sizes: Sizes) -> list[Shape]:
        """The shapes, with symbols where dimensions are not part of the form."""
        symbols = iter(sizes.symbols)
        return [
            Shape(s.dtype, tuple(next(symbols) if o else d for o, d in zip(row, s.dims, strict=True)))
            for row, s in zip(self.is_open, self.shapes, strict=True)
        ]


def form_of(instruction: Instruction, shapes: Sequence[Shape]) -> Form:
    """The form of a kernel on arrays of these shapes, operands and then results."""
    least = [[_LEAST] * s.rank for s in shapes]
    if instruction.opcode == "convolution":
        labels = instruction["dim_labels"]
        places = (labels.input_batch, *labels.input_spatial), (), (labels.output_batch, *labels.output_spatial)
        for row, dims in zip(least, places, strict=True):
            for d in dims:
                row[d] = 2
    is_open = tuple(
        tuple(d >= n for d, n in zip(s.dims, row, strict=True)) for s, row in zip(shapes, least, strict=True)
    )
    rows = list(zip(shapes, is_open, strict=True))
    known = [(s.dtype.name, [0 if o else d for d, o in zip(s.dims, row, strict=True)], 0 in s.dims) for s, row in rows]
    text = repr((instruction.opcode, known, instruction.attrs))
    key = key_of(jit.target_key().encode(), sys.version.encode(), text.encode())
    values = tuple(d for s, row in rows for d, o in zip(s.dims, row, strict=True) if o)
    return Form(key, values, tuple(shapes), is_open)


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
