"""The environment's variables with the values that hold, and where these come from."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from xloom.environment import (
    CACHE,
    CACHE_DIR,
    CC,
    CXX,
    MPI,
    NUM_THREADS,
    NVCC,
    OTHERS,
    TARGET,
    VARIABLES,
    XDG_CACHE_HOME,
    Variable,
)
from xloom.errors import XloomError


def variables_text() -> str:
    """Each variable: what holds, its origin, and what it means; of one that does not fit, why."""
    lines = []
    for title, variables in (("xloom's own", VARIABLES), ("of other programs", OTHERS)):
        lines.append(f"{title}:")
        for variable in variables:
            lines += [f"  {variable} {state(variable)}", f"      {variable.meaning}"]
    return "\n".join(lines) + "\n"


def state(variable: Variable) -> str:
    """`= value  (origin)`."""
    try:
        value = _IN_FORCE[variable]() if variable in _IN_FORCE else variable.text
    except XloomError as error:
        return f"= {variable.text or '?'}  ({error.message})"
    if not variable.text:
        return f"= {value}  (default: {variable.default})" if value else f"  (not set: {variable.default})"
    if value == variable.text:
        return f"= {value}  (the environment)"
    return f"= {value}  (the environment, which says {variable.text})"


def _thread_count() -> str:
    from xloom.thread_count import thread_count

    return str(thread_count())


def _target() -> str:
    from xloom.llvm.target import process_target

    return process_target().name


def _is_cached() -> str:
    from xloom.compilation_cache.folder import cache_enabled

    return str(int(cache_enabled()))


def _cache_dir() -> str:
    from xloom.compilation_cache.folder import cache_dir

    return str(cache_dir())


def _user_cache() -> str:
    from xloom.compilation_cache.folder import cache_dir

    return XDG_CACHE_HOME.text or ("" if CACHE_DIR.text else str(cache_dir().parent))


def _mpi() -> str:
    from xloom.distributed.library import find

    found = find()
    return str(found.path) if found.path else MPI.text


def _compiler(language: str) -> Callable[[], str]:
    def command() -> str:
        from xloom.calls.c_compiler import compiler

        return shlex.join(compiler(language))

    return command


_IN_FORCE: dict[Variable, Callable[[], str]] = {
    NUM_THREADS: _thread_count,
    TARGET: _target,
    CACHE: _is_cached,
    CACHE_DIR: _cache_dir,
    MPI: _mpi,
    XDG_CACHE_HOME: _user_cache,
    CC: _compiler("c"),
    CXX: _compiler("c++"),
    NVCC: _compiler("cuda"),
}
"""What holds now, of those whose default depends on the machine or the user, or whose value may not fit."""
