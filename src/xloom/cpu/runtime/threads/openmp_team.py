"""OpenMP's threads, of a library that the process has loaded, for programs that run between its parallel regions."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from xloom.cpu.runtime.threads.host_ir import STACK_BYTES
from xloom.cpu.runtime.threads.pool import pool
from xloom.cpu.runtime.threads.team_ir import RUN_IN_TEAM

_LIBRARY = re.compile(r"/lib(?:gomp|iomp5|omp)\b[^/]*\.so[^/]*$")
_POINTER = ctypes.c_void_p
_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int32, _POINTER, _POINTER, ctypes.c_uint32, *[_POINTER] * 5)


class OpenMpTeam:
    """Runs programs in a parallel region of the calling thread, whose other threads do the work of the pool's."""

    def __init__(self, library: ctypes.CDLL):
        self._run = _PROTOTYPE(pool().addresses[RUN_IN_TEAM])
        self._parallel = ctypes.cast(library.GOMP_parallel, _POINTER).value
        self._number = ctypes.cast(library.omp_get_thread_num, _POINTER).value
        self._is_forked = False
        os.register_at_fork(after_in_child=self._forget)

    def main(self, address: int, threads: Callable[[], int]) -> Callable[..., int]:
        """A program's main function at an address, run by as many threads as `threads` says at each call.

        That is to be how many the library's other regions have: it ends those of its threads that one has no use for.
        """

        def run(arguments: Any, results: Any, constants: Any, arena: Any, _: None) -> int:
            count = 1 if self._is_forked else threads()
            return self._run(self._parallel, self._number, count, address, arguments, results, constants, arena)

        return run

    def _forget(self) -> None:
        # the library takes threads that the parent had for its own, and would wait for them
        self._is_forked = True


@lru_cache(maxsize=1)
def openmp_team() -> OpenMpTeam | None:
    """The team of the library that is loaded; None where there is none, little stack, or a pool of one thread."""
    maps = Path("/proc/self/maps")
    if pool().size == 1 or not maps.exists() or not _has_stack():
        return None
    names = {line.split()[-1] for line in maps.read_text().splitlines() if _LIBRARY.search(line)}
    if len(names) != 1:  # whose threads wait would have to be guessed
        return None
    library = ctypes.CDLL(names.pop())
    return OpenMpTeam(library) if hasattr(library, "GOMP_parallel") else None


def _has_stack() -> bool:
    """True when new threads have as much of it as the pool's own: what is unlimited becomes less, too."""
    import resource  # not on Windows, which has no /proc either

    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return soft >= STACK_BYTES and not any(name in os.environ for name in ("OMP_STACKSIZE", "GOMP_STACKSIZE"))
