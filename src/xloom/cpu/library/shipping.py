"""The library of kernels as a file that the package brings: see `compilation_cache.shipped`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from xloom.compilation_cache import cache, shipped
from xloom.cpu.kernel_modules import shape_generic
from xloom.cpu.machine_code import serialized
from xloom.environment import CACHE, CACHE_DIR
from xloom.errors import XloomError
from xloom.hlo.text.parser import parse
from xloom.llvm import jit
from xloom.llvm.target import Target


def ship(programs: Iterable[str], target: Target) -> Path:
    """Compiles what `programs` (HLO texts) need on a target, and writes its file; the processor need not be here.

    Raises XloomError where the sources change meanwhile.
    """
    before = shipped.source_digest()
    path = shipped.file_of(target.name)
    path.unlink(missing_ok=True)  # what is there already would be found, not made
    shipped.shipped.cache_clear()
    with _empty_cache() as folder:
        for text, flushes in product(programs, (False, True)):  # what calls their kernels is another code
            serialized(parse(text), replace(target, flushes_denormals=flushes))
        cache.flush()
        data = shipped.packed(folder.entries())
    if shipped.source_digest() != before:
        raise XloomError("a source file changed while its kernels were compiled", hint="run it again")
    path.parent.mkdir(exist_ok=True)
    # others see all of the file or nothing, and may have the one before open
    unfinished = path.with_name(f"unfinished-{os.getpid()}.kernels")
    unfinished.write_bytes(data)
    unfinished.replace(path)
    shipped.shipped.cache_clear()
    return path


@contextmanager
def _empty_cache() -> Iterator[cache.Folder]:
    """A cache of its own, in which only what is compiled meanwhile is."""
    before = {name: os.environ.get(name) for name in (CACHE_DIR.name, CACHE.name)}
    cache.flush()
    with TemporaryDirectory() as path:
        try:
            _set({CACHE_DIR.name: path, CACHE.name: "1"})
            jit.object_cache.clear()
            shape_generic.kept.clear()
            yield cache.folder()
        finally:
            cache.flush()
            _set(before)


def _set(environment: Mapping[str, str | None]) -> None:
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
