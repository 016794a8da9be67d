"""Kernels whose machine code serves many shapes: found by what they are apart from their sizes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache

from xloom.cpu import jit
from xloom.cpu.cache import Cache, key_of
from xloom.cpu.content import Content
from xloom.cpu.emit.size_formula import SizeFormula
from xloom.cpu.emit.sizes import number
from xloom.cpu.form import Form
from xloom.cpu.kernel import Kernel, Phase
from xloom.cpu.module_parts import parts_of

_MOST = 64
"""Kernels of one form that are remembered."""

kept = Cache()
"""By form: the kernels that there are, each a line of JSON with its formula."""


def _key(form: Form) -> str:
    return key_of(jit.target_key().encode(), form.text.encode())


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
    for line in data.splitlines() if data else ():
        name, symbols, keys, content, formula = _read(line)
        served = formula.of(form.values)
        if served is None:
            continue
        found = [jit.object_cache.get(key) for key in keys]
        objects = tuple(data for data in found if data is not None)
        if len(objects) < len(keys):
            return None
        table, counts, grains, scratch = served
        phases = [Phase(*row) for row in zip(symbols, counts, grains, strict=True)]
        return Sized(name, objects, tuple(table), phases, tuple(scratch), Content(content))
    return None


@lru_cache(maxsize=1024)
def _read(line: bytes) -> tuple[str, list[str], list[str], str, SizeFormula]:
    name, symbols, keys, content, *formula = json.loads(line)
    return name, symbols, keys, content, SizeFormula(*formula)


def remember(form: Form, kernel: Kernel, name: str, text: str, symbols: Sequence[str]) -> None:
    """Keeps a kernel, whose machine code is being made of `text`, for other shapes."""
    assert kernel.sizes is not None
    phases = kernel.phases
    formula = kernel.sizes.formula([p.count for p in phases], [p.grain for p in phases], kernel.scratch)
    keys = [jit.object_key(part, kernel.content) for part in parts_of(text)]
    line = json.dumps([name, list(symbols), keys, kernel.content.value, *astuple(formula)]).encode()
    data = kept.get(_key(form))
    kept.put(_key(form), b"\n".join([line, *(data.splitlines() if data else ())][:_MOST]))


def for_shape(kernel: Kernel) -> tuple[list[Phase], list[int]]:
    """A kernel's phases and scratch memory, with the numbers of the shape that it was made for."""
    phases = [Phase(p.symbol, number(p.count), number(p.grain), p.loops) for p in kernel.phases]
    return phases, [number(n) for n in kernel.scratch]
