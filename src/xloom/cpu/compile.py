"""HLO to a native program: what an earlier compilation has kept, or else the stages, one after another."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from xloom import checks, trace
from xloom.calls.sanitizer import active
from xloom.cpu.entry.timed_twin import TimedTwin
from xloom.cpu.kept_programs import found, noted_key
from xloom.cpu.runtime.executable import Executable
from xloom.cpu.runtime.spmd_executable import SpmdExecutable, is_spmd
from xloom.hlo.garbage_collection import without_collector
from xloom.hlo.lazy_module import declaration_of, identity_of
from xloom.hlo.module import Module
from xloom.llvm.shared_code import compare, is_checked
from xloom.llvm.target import Target, process_target

if TYPE_CHECKING:
    from xloom.cpu.entry.profiling import TimedExecutable
    from xloom.cpu.runtime.checked_executable import CheckedExecutable
    from xloom.cpu.runtime.checked_spmd_executable import CheckedSpmdExecutable
    from xloom.cpu.runtime.dynamic_shapes import DynamicExecutable


def compile(
    module: Module, target: Target | None = None, *, check: Collection[str] | None = None
) -> Executable | DynamicExecutable | CheckedExecutable | CheckedSpmdExecutable:
    """Native code for `module`, which stays as it is, made for `target`: for the host unless $XLOOM_TARGET says else.

    Runs raise CheckError where they do what `check` names of `xloom.checks.VALUE_CHECKS`, $XLOOM_CHECK if it is None:
    not those with arrays of dynamic size that have effects, or several devices, of which a NotCheckedWarning tells.
    Raises VerifyError for an invalid module, LoweringError for what has no native code and for a target whose code
    does not run here, XloomError for a check that there is not.
    """
    target = target or process_target()
    wanted = checks.value_checks() if check is None else checks.known_value_checks(check)
    if not wanted and (executable := _known(module, target)) is not None:
        return executable
    with without_collector():  # what is made either stays or is no cycle
        return _compiler().compiled(module, target, wanted)


def _known(module: Module, target: Target) -> Executable | None:
    """The program of a module that was compiled before and need not be read."""
    identity = identity_of(module)
    if identity is None or not target.runs_here or active() is not None or trace.active() is not None:
        return None
    key = noted_key(identity, target)
    if key is None:
        return None
    if is_checked():
        compare("key of a program", module.name, key, _key_of(module, target) or "")
    image = found(key, module, target)
    if image is None:
        return None
    executable = (SpmdExecutable if is_spmd(declaration_of(module)) else Executable)(module, image, key)
    executable.timed = TimedTwin(executable, partial(_timed, module, target), partial(_key_of, target=target))
    return executable


def _timed(module: Module, target: Target, **details: Any) -> TimedExecutable:
    return _compiler().timed(module, target, **details)


def _key_of(module: Module, target: Target) -> str | None:
    return _compiler().key_of(module, target)


def _compiler() -> Any:
    """What compiles, loaded with the first program that was not compiled before: to load it takes as long as some."""
    with without_collector():  # all that is loaded stays
        from xloom.cpu import compilation

    return compilation
