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
from xloom.cpu.emit.sizes import number
from xloom.cpu.form import Form
from xloom.cpu.kernel import Kernel, Phase
from xloom.cpu.module_parts import parts_of

_MOST = 64
"""Kernels of one form that are remembered."""
_SPACE = {"__builtins__": {"min": min, "max": max}}

kept = Cache()
"""By form: the kernels that there are, with the conditions for each."""


def _key(form: Form) -> str:
    return key_of(jit.target_key().encode(), sys.version.encode(), form.text.encode())


@dataclass(frozen=True)
class Sized:
    """A kernel for one shape."""

    name: str
    objects: tuple[bytes, ...]
    """Its machine code."""
    table: tuple[int, ...]
    phases: list[Phase]
    scratch: tuple[int, ...]
    content: Content


def find(form: Form) -> Sized | None:
    """The kernel that was made for another shape and serves this one too."""
    data = kept.get(_key(form))
    for code, name, symbols, keys, content in marshal.loads(data) if data else ():
        served = FunctionType(code, _SPACE)(*form.values)
        if served is None:
            continue
        found = [jit.object_cache.get(key) for key in keys]
        objects = tuple(data for data in found if data is not None)
        if len(objects) < len(keys):
            return None
        table, counts, grains, scratch = served
        phases = [Phase(*row) for row in zip(symbols, counts, grains, strict=True)]
        return Sized(name, objects, table, phases, scratch, Content(content))
    return None


def remember(form: Form, kernel: Kernel, name: str, text: str, symbols: Sequence[str]) -> None:
    """Keeps a kernel, whose machine code is being made of `text`, for other shapes."""
    assert kernel.sizes is not None
    phases = kernel.phases
    code = kernel.sizes.code([p.count for p in phases], [p.grain for p in phases], kernel.scratch)
    keys = [jit.object_key(part, kernel.content) for part in parts_of(text)]
    data = kept.get(_key(form))
    rows: list[Any] = list(marshal.loads(data)) if data else []
    rows.insert(0, (code, name, list(symbols), keys, kernel.content.value))
    kept.put(_key(form), marshal.dumps(rows[:_MOST]))


def for_shape(kernel: Kernel) -> tuple[list[Phase], list[int]]:
    """A kernel's phases and scratch memory, with the numbers of the shape that it was made for."""
    phases = [Phase(p.symbol, number(p.count), number(p.grain), p.loops) for p in kernel.phases]
    return phases, [number(n) for n in kernel.scratch]
