"""HLO to a native program: the stages, one after another, or what an earlier compilation has kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from xloom import checks, trace
from xloom.calls.jaxlib_handlers import is_lapack
from xloom.calls.sanitizer import active
from xloom.checks import NotCheckedWarning
from xloom.compilation_cache import cache, first_maker
from xloom.cpu.constant_arrays import constant_arrays
from xloom.cpu.custom_calls import native_call
from xloom.cpu.custom_calls.custom_call import failure_callbacks
from xloom.cpu.entry.emitted_program import MAIN
from xloom.cpu.entry.timed_twin import TimedTwin
from xloom.cpu.runtime.checked_executable import CheckedExecutable, checked
from xloom.cpu.runtime.checked_spmd_executable import CheckedSpmdExecutable, checked_spmd
from xloom.cpu.runtime.dynamic_shapes import DynamicExecutable, padded_to_bounds
from xloom.cpu.runtime.executable import Executable
from xloom.cpu.runtime.interpreted_checks import InterpretedChecks
from xloom.cpu.runtime.sanitized_executable import CallingExecutable, GuardedExecutable
from xloom.cpu.runtime.serialized_executable import LinkedExecutable, SerializedExecutable
from xloom.cpu.runtime.spmd_executable import SpmdExecutable, is_spmd
from xloom.cpu.runtime.threads import pool
from xloom.errors import LoweringError
from xloom.hlo.expanded_size import overgrown_call
from xloom.hlo.instruction import Instruction
from xloom.hlo.lazy_module import identity_of
from xloom.hlo.module import Module
from xloom.hlo.verify.module import verify
from xloom.llvm import jit
from xloom.llvm.shared_code import compare, is_checked
from xloom.llvm.target import Target, process_target
from xloom.passes.dynamic_padding import has_dynamic
from xloom.passes.effects import Effects

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder
    from xloom.cpu.entry.profiling import TimedExecutable

linked: cache.Recent[LinkedExecutable] = cache.Recent(cache.MEMORY_BYTES)
"""Programs of this process by key; none with custom calls, whose handlers have a state for each program."""
keys = cache.Cache(1 << 20)
"""The keys of programs by what stands for their modules while those are unread."""


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
    if wanted and not has_dynamic(module) and overgrown_call(module.entry) is None:
        verify(module)
        return (checked_spmd if is_spmd(module) else checked)(module, wanted, partial(_compiled, target=target))
    executable = _compiled(module, target)
    if wanted and isinstance(executable, DynamicExecutable) and not Effects().of_computation(module.entry):
        return InterpretedChecks(executable, wanted)
    if wanted:
        why = "has arrays of dynamic size, and effects or several devices" if has_dynamic(module) else "is too large"
        warnings.warn(f"{module.name} is not checked for {', '.join(sorted(wanted))}: it {why}", NotCheckedWarning, 2)
    return executable


def _compiled(module: Module, target: Target) -> Any:
    """Without checks of values."""
    if not target.runs_here:
        raise LoweringError(
            f"code for {target.name} does not run on this machine",
            where=module.name,
            hint=f"xloom opt --emit asm --target {target.name} shows it",
        )
    identity = identity_of(module)
    if identity is not None and active() is None and trace.active() is None:
        key = (keys.get(_identity_key(identity, target)) or b"").decode()
        if key and is_checked():
            compare("key of a program", module.name, key, _key(module, target) or "")
        image = _found(key, module, target) if key else None
        if image is not None:
            return _with_timed(Executable(module, image, key), target)
    if has_dynamic(module):
        padded, differs = padded_to_bounds(module)
        compiled = _compiled(padded, target)
        return DynamicExecutable(module, compiled) if differs else compiled
    if trace.active() is not None:
        return _timed(module, target)
    key = _key(module, target)
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
    executable.timed = TimedTwin(executable, partial(_timed, executable.module, target), partial(_key, target=target))
    return executable


def _timed(module: Module, target: Target, **details: Any) -> TimedExecutable:
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
    if is_spmd(module) or has_dynamic(module) or any(i.opcode == "custom-call" for i in module.instructions):
        return False
    keys.put(_identity_key(identity, target), key.encode())
    return True


def _identity_key(identity: str, target: Target) -> str:
    return cache.key_of(b"unread", target.program_key, identity.encode())


def _key(module: Module, target: Target) -> str | None:
    """What stands for the module, names of its source aside; None where its code depends on more, or none is kept."""
    if not cache.cache_enabled():
        return None
    contents: list[bytes] = []
    for instruction in module.instructions:
        if instruction.opcode == "custom-call":
            meaning = native_call.registration_key(instruction)
            if meaning is None:
                return None
            contents.append(meaning.encode())
        if instruction.opcode == "constant":
            contents.extend(a.tobytes() for a in constant_arrays(instruction))
    text = module.to_text(print_metadata=False)  # without large constants, whose digits would take long
    return cache.key_of(target.program_key, text.encode("utf-8", "surrogateescape"), *contents)


def _found(key: str, module: Module, target: Target) -> LinkedExecutable | None:
    """A program that was compiled before; none where its passes are to be checked as they run."""
    if checks.is_checked("passes"):
        return None
    image = linked.get(key) or _kept(key, module)
    if image is not None and is_checked():
        cache.flush()
        data = cache.folder().get(key)
        if data is not None:
            from xloom.cpu.machine_code import serialized

            anew, _ = serialized(module, target)
            compare("program", module.name, SerializedExecutable.from_bytes(data).outline(), anew.outline())
    return image


def _found_or_made(key: str, module: Module, target: Target) -> LinkedExecutable:
    """A program that was compiled before, or is by the first of those who want it at once."""
    image = _found(key, module, target)
    if image is not None:
        return image
    if checks.is_checked("passes"):  # each checks its own
        return _made(module, target, key)
    return first_maker.found_or_made(key, partial(_found, key, module, target), partial(_made, module, target, key))


def _kept(key: str, module: Module) -> LinkedExecutable | None:
    """A program that another process has compiled."""
    data = cache.folder().get(key)
    if data is None:
        return None
    found = SerializedExecutable.from_bytes(data)
    calls = native_call.from_bytes(found.native_calls, module) if found.native_calls else []
    image = _image(found, calls, {}, [calls[k].instruction for k in found.failing])
    if not calls:
        linked.put(key, image, image.nbytes)
    return image


def _made(
    module: Module, target: Target, key: str | None, builder: Callable[..., EntryBuilder] | None = None
) -> LinkedExecutable:
    """A program compiled now, and kept."""
    from xloom.cpu.machine_code import serialized  # here: what was compiled before is found without the compiler

    made, program = serialized(module, target, *(() if builder is None else (builder,)))
    calls = program.native_calls
    image = _image(made, calls, program.imports, program.calls, program.kept)
    if key is not None and not program.imports:
        cache.later(_keep, cache.folder(), key, made.to_bytes())
        if not calls:
            linked.put(key, image, image.nbytes)
    return image


def _image(
    made: SerializedExecutable,
    calls: list[native_call.NativeCall],
    imports: dict[str, int],
    failing: list[Instruction],
    kept: Sequence[object] = (),
) -> LinkedExecutable:
    """Linked with what it calls."""
    symbols = {symbol: address for call in calls for symbol, address in call.symbols.items()}
    if calls:
        symbols.update(failure_callbacks())
    known = pool().addresses
    used = {name: known[name] for name in known if any(name.encode() in data for data in made.objects)}  # each costs
    library = jit.Library(made.objects, [MAIN], {**used, **imports, **symbols})
    aligned_results = set(made.aligned_results)
    kept = [*kept, *calls]
    needs_run = bool(imports) or not all(is_lapack(call.registration) for call in calls)
    return LinkedExecutable(
        library, made.constants, made.memory, failing, kept, aligned_results, made.collectives, needs_run
    )


def _keep(folder: cache.Folder, key: str, data: bytes) -> None:
    if cache.is_current():
        folder.put(key, data)
