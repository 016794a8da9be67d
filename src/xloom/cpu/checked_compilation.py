"""Programs whose runs are checked for what they do to values; of one that cannot be there is a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from typing import Any

from xloom.checks import NotCheckedWarning
from xloom.cpu.runtime.checked_executable import checked as checked_alone
from xloom.cpu.runtime.checked_spmd_executable import checked_spmd
from xloom.cpu.runtime.dynamic_shapes import DynamicExecutable
from xloom.cpu.runtime.interpreted_checks import InterpretedChecks
from xloom.cpu.runtime.spmd_executable import is_spmd
from xloom.hlo.dynamic_sizes import has_dynamic
from xloom.hlo.expanded_size import overgrown_call
from xloom.hlo.module import Module
from xloom.hlo.verify.module import verify
from xloom.passes.effects import Effects


def checked(module: Module, wanted: Collection[str], make: Callable[[Module], Any]) -> Any:
    """Native code for `module`, made by `make`, whose runs are checked for what is `wanted`."""
    if not has_dynamic(module) and overgrown_call(module.entry) is None:
        verify(module)
        return (checked_spmd if is_spmd(module) else checked_alone)(module, wanted, make)
    executable = make(module)
    if isinstance(executable, DynamicExecutable) and not Effects().of_computation(module.entry):
        return InterpretedChecks(executable, wanted)
    why = "has arrays of dynamic size, and effects or several devices" if has_dynamic(module) else "is too large"
    warnings.warn(f"{module.name} is not checked for {', '.join(sorted(wanted))}: it {why}", NotCheckedWarning, 4)
    return executable
