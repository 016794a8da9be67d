"""Programs that this process or another one has compiled, found without the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xloom import checks
from xloom.calls.jaxlib_handlers import is_lapack
from xloom.compilation_cache import cache
from xloom.cpu.entry.main_function import MAIN
from xloom.cpu.runtime.serialized_executable import LinkedExecutable, SerializedExecutable
from xloom.cpu.runtime.threads import pool
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.llvm import jit
from xloom.llvm.shared_code import compare, is_checked
from xloom.llvm.target import Target

if TYPE_CHECKING:
    from xloom.cpu.custom_calls.native_call import NativeCall

linked: cache.Recent[LinkedExecutable] = cache.Recent(cache.MEMORY_BYTES)
"""Programs of this process by key; none with custom calls, whose handlers have a state for each program."""
keys = cache.Cache(1 << 20)
"""The keys of programs by what stands for their modules while those are unread."""


def noted_key(identity: str, target: Target) -> str | None:
    """The key of the program of a module that is unread; None where none is known."""
    return (keys.get(_identity_key(identity, target)) or b"").decode() or None


def keep_key(identity: str, target: Target, key: str) -> None:
    """Keeps the key of a program by what stands for its module."""
    keys.put(_identity_key(identity, target), key.encode())


def _identity_key(identity: str, target: Target) -> str:
    return cache.key_of(b"unread", target.program_key, identity.encode())


def found(key: str, module: Module, target: Target) -> LinkedExecutable | None:
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


def _kept(key: str, module: Module) -> LinkedExecutable | None:
    """A program that another process has compiled."""
    data = cache.folder().get(key)
    if data is None:
        return None
    made = SerializedExecutable.from_bytes(data)
    calls: list[NativeCall] = []
    if made.native_calls:
        from xloom.cpu.custom_calls import native_call  # which few programs need

        calls = native_call.from_bytes(made.native_calls, module)
    image = image_of(made, calls, {}, [calls[k].instruction for k in made.failing])
    if not calls:
        linked.put(key, image, image.nbytes)
    return image


def image_of(
    made: SerializedExecutable,
    calls: list[NativeCall],
    imports: dict[str, int],
    failing: list[Instruction],
    kept: Sequence[object] = (),
) -> LinkedExecutable:
    """Linked with what it calls."""
    symbols = {symbol: address for call in calls for symbol, address in call.symbols.items()}
    if calls:
        from xloom.cpu.custom_calls.custom_call import failure_callbacks

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
