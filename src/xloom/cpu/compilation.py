"""Programs that are compiled now: what is checked, watched or timed in them, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from xloom import checks, trace
from xloom.calls.sanitizer import active
from xloom.compilation_cache import cache, first_maker
from xloom.cpu.constant_arrays import constant_arrays
from xloom.cpu.entry.timed_twin import TimedTwin
from xloom.cpu.kept_programs import found, image_of, keep_key, linked
from xloom.cpu.runtime.executable import Executable
from xloom.cpu.runtime.sanitized_executable import CallingExecutable, GuardedExecutable
from xloom.cpu.runtime.serialized_executable import LinkedExecutable, SerializedExecutable
from xloom.cpu.runtime.spmd_executable import SpmdExecutable, is_spmd
from xloom.errors import LoweringError
from xloom.hlo.dynamic_sizes import has_dynamic
from xloom.hlo.lazy_module import identity_of
from xloom.hlo.module import Module
from xloom.llvm.target import Target

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder
    from xloom.cpu.entry.profiling import TimedExecutable
    from xloom.cpu.runtime.checked_executable import CheckedExecutable
    from xloom.cpu.runtime.checked_spmd_executable import CheckedSpmdExecutable
    from xloom.cpu.runtime.dynamic_shapes import DynamicExecutable


def compiled(
    module: Module, target: Target, wanted: Collection[str]
) -> Executable | DynamicExecutable | CheckedExecutable | CheckedSpmdExecutable:
    """Native code for `module`, whose runs are checked for what is `wanted`. See `xloom.cpu.compile.compile`."""
    make = partial(_compiled, target=target)
    if not wanted:
        return make(module)
    from xloom.cpu.checked_compilation import checked  # here: it loads much, and few programs are checked

    return checked(module, wanted, make)


def _compiled(module: Module, target: Target) -> Any:
    """Without checks of values."""
    if not target.runs_here:
        raise LoweringError(
            f"code for {target.name} does not run on this machine",
            where=module.name,
            hint=f"xloom opt --emit asm --target {target.name} shows it",
        )
    identity = identity_of(module)
    if has_dynamic(module):
        from xloom.cpu.runtime.dynamic_shapes import DynamicExecutable, padded_to_bounds  # here: few programs are

        padded, differs = padded_to_bounds(module)
        executable = _compiled(padded, target)
        return DynamicExecutable(module, executable) if differs else executable
    if trace.active() is not None:
        return timed(module, target)
    key = key_of(module, target)
    image = _made(module, target, None) if key is None else _found_or_made(key, module, target)
    if identity is not None and key is not None:
        note_key(identity, module, target, key)
    if is_spmd(module):
        return _with_timed(SpmdExecutable(module, image, key), target)
    if active() is not None:
        return GuardedExecutable(module, image, key)
    if image.kept:  # it calls code outside
        calling = CallingExecutable(module, image, key, partial(_guarded, module, target))
        return _with_timed(calling, target)
    return _with_timed(Executable(module, image, key), target)


def _with_timed(executable: Executable, target: Target) -> Executable:
    executable.timed = TimedTwin(executable, partial(timed, executable.module, target), partial(key_of, target=target))
    return executable


def timed(module: Module, target: Target, **details: Any) -> TimedExecutable:
    """A program that tells the trace of its kernels."""
    from xloom.cpu.entry.profiling import ThunkTimes, TimedEntryBuilder, TimedExecutable, TimedSpmdExecutable

    times = ThunkTimes()
    with trace.span(module.name, "compile", **details):
        image = _made(module, target, None, partial(TimedEntryBuilder, times=times))
    return (TimedSpmdExecutable if is_spmd(module) else TimedExecutable)(module, image, times)


def _guarded(module: Module, target: Target) -> GuardedExecutable:
    """A program whose custom calls the sanitizer watches, which is on."""
    return GuardedExecutable(module, _made(module, target, None))


def note_key(identity: str, module: Module, target: Target, key: str) -> bool:
    """Keeps the key of a program by what stands for its module; False where the program depends on more than that."""
    if has_dynamic(module) or any(i.opcode == "custom-call" for i in module.instructions):
        return False
    keep_key(identity, target, key)
    return True


def key_of(module: Module, target: Target) -> str | None:
    """What stands for the module, names of its source aside; None where its code depends on more, or none is kept."""
    if not cache.cache_enabled():
        return None
    contents: list[bytes] = []
    for instruction in module.instructions:
        if instruction.opcode == "custom-call":
            from xloom.cpu.custom_calls.native_call import registration_key  # which few programs need

            meaning = registration_key(instruction)
            if meaning is None:
                return None
            contents.append(meaning.encode())
        if instruction.opcode == "constant":
            contents.extend(a.tobytes() for a in constant_arrays(instruction))
    text = module.to_text(print_metadata=False)  # without large constants, whose digits would take long
    return cache.key_of(target.program_key, text.encode("utf-8", "surrogateescape"), *contents)


def _found_or_made(key: str, module: Module, target: Target) -> LinkedExecutable:
    """A program that was compiled before, or is by the first of those who want it at once."""
    image = found(key, module, target)
    if image is not None:
        return image
    if checks.is_checked("passes"):  # each checks its own
        return _made(module, target, key)
    return first_maker.found_or_made(key, partial(found, key, module, target), partial(_made, module, target, key))


def _made(
    module: Module, target: Target, key: str | None, builder: Callable[..., EntryBuilder] | None = None
) -> LinkedExecutable:
    """A program compiled now, and kept."""
    from xloom.cpu.machine_code import serialized  # here: what was compiled before is found without it

    made, program = serialized(module, target, *(() if builder is None else (builder,)))
    calls = program.native_calls
    image = image_of(made, calls, program.imports, program.calls, program.kept)
    if key is not None and not program.imports:
        cache.later(_keep, cache.folder(), key, made)
        if not calls:
            linked.put(key, image, image.nbytes)
    return image


def _keep(folder: cache.Folder, key: str, made: SerializedExecutable) -> None:
    if cache.is_current():
        folder.put(key, made.to_bytes())
