"""One custom call in the sanitizer, from its operands to its value."""

from __future__ import annotations

import faulthandler
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from xloom.calls import buffers
from xloom.calls.call_version import known
from xloom.calls.registry import Registration, place
from xloom.calls.sanitizer.guarded import GuardedCall
from xloom.calls.sanitizer.isolation import run_in_child
from xloom.calls.sanitizer.rerun import Reruns, may_run_again, seconds_again, silently
from xloom.calls.sanitizer.settings import Settings
from xloom.calls.sanitizer.trap import Trap, is_available
from xloom.calls.sanitizer.watchdog import Watchdog
from xloom.errors import CustomCallError
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.reentry import device_waits

Perform = Callable[[Registration, Instruction, Any, Sequence[Any]], None]
"""Makes the call of a registration for an instruction, with the buffers of the result and of the operands."""


def sanitized(
    settings: Settings,
    instruction: Instruction,
    operands: Sequence[tuple[Any, Shape]],
    registration: Registration,
    device: str,
    perform: Perform,
) -> Any:
    """The buffers of the result, as the shape has them, when `perform` has filled them in guarded memory.

    `operands` come with the shapes they are laid out as. Raises CustomCallError that says what the call did wrong.
    """
    what, where = f"custom call {registration.name!r}", place(instruction)
    _show_stacks_of_crashes()
    call, inputs, out = _guarded(instruction, operands, registration)

    def attempt(limit: float | None) -> None:
        with device_waits(device, registration.name, where):
            _attempt(call, limit, what, where, registration, lambda r: perform(r, instruction, out, inputs))

    begin = time.monotonic()
    if settings.isolate:
        run_in_child(lambda: attempt(None), settings.seconds, what, where)
    else:
        attempt(settings.seconds)
    used = list(_used(instruction, out))
    found = call.damage() + call.unwritten(used)
    if not found and registration.function is None and may_run_again(instruction):
        taken = time.monotonic() - begin
        reruns = Reruns(call, used, lambda: attempt(None), taken)
        found = reruns.stray_accesses()
        if not found and is_available():
            found = _at_the_edges(
                lambda edge: _guarded(instruction, operands, registration, edge),
                lambda c, out, inputs: _attempt(
                    c, None, what, where, registration, lambda r: perform(r, instruction, out, inputs)
                ),
                what,
                seconds_again(taken),
            )
        doubtful = call.doubtful(used)
        if doubtful:
            kept = reruns.unwritten()
            found += call.unwritten(used, {n: np.intersect1d(doubtful[n], kept.get(n, ())) for n in doubtful})
    if found:
        raise CustomCallError(f"{what} {'; it '.join(found)}", where=where)
    call.warn_of_non_finite(used, what, where)
    return out


def _guarded(
    instruction: Instruction, operands: Sequence[tuple[Any, Shape]], registration: Registration, edge: str = ""
) -> tuple[GuardedCall, list[Any], Any]:
    """A call's buffers: of the operands, which are protected, and of the result."""
    call = GuardedCall(edge)
    inputs = [call.place(v, s, f"operand {k}") for k, (v, s) in enumerate(operands)]
    # Python functions are promised zeros
    out = call.allocate(instruction.shape, "the result", poisoned=registration.function is None)
    for leaf in _arrays(tuple(buffers.share_aliases(instruction, out, inputs))):
        call.is_operand_too(leaf)
    call.protect()
    return call, inputs, out


def _at_the_edges(
    guarded: Callable[[str], tuple[GuardedCall, list[Any], Any]],
    attempt: Callable[[GuardedCall, Any, Sequence[Any]], None],
    what: str,
    seconds: float,
) -> list[str]:
    """What it accessed outside its buffers where guard pages touch them: runs in child processes say.

    Other failures are none of the kernel's: at the end of a page, buffers are not aligned as it may need them.
    """
    for edge in ("end", "begin"):
        call, inputs, out = guarded(edge)

        def work(call: GuardedCall = call, inputs: Sequence[Any] = inputs, out: Any = out) -> None:
            silently(lambda: attempt(call, out, inputs))

        try:
            run_in_child(work, seconds, what, "")
        except CustomCallError as error:
            if error.message.startswith((f"{what} read ", f"{what} wrote to ")):
                return [error.message.removeprefix(f"{what} ")]
    return []


def _attempt(
    call: GuardedCall,
    limit: float | None,
    what: str,
    where: str,
    registration: Registration,
    perform: Callable[[Registration], None],
) -> None:
    """The call, its faults and its time limit."""
    trap = Trap(registration.address) if registration.function is None and is_available() else None
    watchdog = Watchdog(limit, trap, f"{what} (at {where})") if limit is not None else None
    with trap or nullcontext(), watchdog or nullcontext():
        perform(replace(known(registration), address=trap.address) if trap else registration)
    if watchdog and watchdog.fired:
        error = CustomCallError(f"{what} has not returned after {limit:g} s", where=where)
        error.add_note(watchdog.fired)
        raise error
    if trap and trap.fault:
        name, address = trap.fault.signal.name, trap.fault.address
        did = f"raised {name}" if address is None else f"{call.describe(address, trap.fault.wrote)} ({name})"
        raise CustomCallError(f"{what} {did}", where=where)


def _show_stacks_of_crashes() -> None:
    """For faults that no handler can catch."""
    if not faulthandler.is_enabled() and sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)


def _used(instruction: Instruction, out: Any) -> Iterator[np.ndarray]:
    """The outputs that the program uses, so not those that are scratch memory."""
    users = instruction.users
    root = instruction.parent.root if instruction.parent is not None else None
    if root is instruction or any(u.opcode != "get-tuple-element" for u in users):
        yield from _arrays(out)
        return
    for index in {u["index"] for u in users if u.users or u is root}:
        yield from _arrays(out[index])


def _arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, tuple):
        for element in value:
            yield from _arrays(element)
    elif value is not None:
        yield value
