"""The custom-call expander: merges the HLO that custom calls carry back into the module."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from xloom.errors import PassError, near
from xloom.hlo.attributes import Metadata, StackFrames
from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction, map_called
from xloom.hlo.module import Module
from xloom.passes.base import Pass, pin_roots, register
from xloom.passes.carried_hlo import carried_module, carries_hlo
from xloom.passes.computation_inlining import inline, is_copy_of
from xloom.passes.transposed_result import turn_back


@register
@dataclass(frozen=True)
class Expand(Pass):
    """Replaces each custom call whose backend config is an HLO module by what that module computes.

    The carried entry's instructions come in the call's place, its parameters are the call's operands, and the other
    computations are cloned as `name.clone`. Carriers inside carriers are expanded too. Copies that only gave the call
    its layouts are gone with it. Custom calls that carry something else stay as they are; `target` limits the pass to
    one custom-call target.
    """

    name = "expand"
    target: str = ""

    def run(self, module: Module) -> bool:
        """See the class. Raises PassError when carried HLO is malformed, or does not fit the call."""
        pin_roots(module)
        guests = _Guests(module)
        stack = self._carriers(module.instructions)[::-1]
        if not stack and self.target:
            self._check_target(module)
        changed = bool(stack)
        while stack:
            # what a carrier brings along is expanded before its neighbours
            stack.extend(reversed(self._carriers(guests.merge(stack.pop()))))
        return changed

    def _carriers(self, instructions: Iterable[Instruction]) -> list[Instruction]:
        return [
            i
            for i in instructions
            if i.opcode == "custom-call" and self.target in ("", i.attrs.get("custom_call_target")) and carries_hlo(i)
        ]

    def _check_target(self, module: Module) -> None:
        known = {i["custom_call_target"] for i in module.instructions if i.opcode == "custom-call"}
        if self.target not in known and near(self.target, known):
            raise PassError(f"no custom call has the target {self.target!r}", hint=near(self.target, known))


def _copies_of(call: Instruction) -> list[Instruction]:
    """The copies of a call's result, or of the parts of it."""
    users = [part for user in call.users for part in (user.users if user.opcode == "get-tuple-element" else [user])]
    return [user for user in users if user.opcode == "copy"]


# copy(copy(x)) == x, get-tuple-element(tuple(x, y), 0) == x
def _undo(copy: Instruction) -> None:
    """Removes a copy of a copy of what has its layout, and what nothing uses then."""
    inner = _part(copy.operands[0])
    ordered = copy.has_control_dependencies
    if ordered or not is_copy_of(inner, copy.shape):
        return
    source = _part(inner.operands[0])
    copy.replace_all_uses_with(source)
    stack = [copy]
    while stack:
        dead = stack.pop()
        free = dead.opcode in ("copy", "get-tuple-element", "tuple") and not dead.control_successors
        if free and dead.is_dead and dead.parent is not None:
            stack.extend(dead.operands)
            dead.parent.remove(dead)


def _part(value: Instruction) -> Instruction:
    """What a part of a tuple is, where the tuple is made."""
    while value.opcode == "get-tuple-element" and value.operands[0].opcode == "tuple":
        value = value.operands[0].operands[value["index"]]
    return value


class _Guests:
    """Merges carried modules into one host."""

    def __init__(self, host: Module):
        self.host = host
        self._channels: set[int] | None = None

    def merge(self, call: Instruction) -> list[Instruction]:
        """Expands one custom call; the instructions that came into the host, in their order."""
        guest = carried_module(call)
        pin_roots(guest)
        self._rebase_stack_frames(guest)
        self._renumber_channels(guest)
        metadata = call.metadata
        clones: dict[Computation, Computation] = {}
        arrived: list[Instruction] = []
        for computation in callees_first([guest.entry])[:-1]:
            clone = clones[computation] = computation.clone("clone", self.host)
            for instruction in clone:
                map_called(instruction, clones.__getitem__)
                if instruction.metadata == Metadata():
                    instruction.metadata = metadata
            arrived.extend(clone)
        before, after = call.operands, _copies_of(call)
        inlined = inline(call, guest.entry, lambda new: map_called(new, clones.__getitem__))
        for copy in after:
            _undo(copy)
        if inlined.value.opcode == "transpose":
            turn_back(inlined.value)
        for copy in {*before}:
            if copy.opcode == "copy" and copy.is_dead:
                self._remove(copy)
        return [i for i in inlined.copies if i.parent is not None] + arrived

    @staticmethod
    def _remove(instruction: Instruction) -> None:
        assert instruction.parent is not None
        instruction.parent.remove(instruction)

    def _rebase_stack_frames(self, guest: Module) -> None:
        """Appends the guest's table of stacks to the host's, and makes the guest's metadata point there."""
        theirs: StackFrames | None = guest.stack_frames
        offset = 0
        if theirs is not None:
            mine: StackFrames = self.host.stack_frames or StackFrames((), (), (), ())
            files, functions, locations = len(mine.file_names), len(mine.function_names), len(mine.locations)
            offset = len(mine.frames)
            self.host.stack_frames = StackFrames(
                mine.file_names + theirs.file_names,
                mine.function_names + theirs.function_names,
                mine.locations + tuple((row[0] + files, row[1] + functions, *row[2:]) for row in theirs.locations),
                mine.frames + tuple((at + locations, up + offset if up else 0) for at, up in theirs.frames),
            )
        for instruction in guest.instructions:
            old = instruction.metadata.stack_frame_id
            if old:
                new = old + offset if theirs is not None else 0
                instruction.metadata = replace(instruction.metadata, stack_frame_id=new)

    def _renumber_channels(self, guest: Module) -> None:
        """Gives the guest's channels numbers that are free in the host."""
        users = [i for i in guest.instructions if i.attrs.get("channel_id")]
        if not users:
            return
        if self._channels is None:
            self._channels = {i.attrs["channel_id"] for i in self.host.instructions if i.attrs.get("channel_id")}
        renamed: dict[int, int] = {}
        for instruction in users:
            old = instruction.attrs["channel_id"]
            if old not in renamed:
                free = old if old not in self._channels else max(self._channels) + 1
                renamed[old] = free
                self._channels.add(free)
            instruction.attrs["channel_id"] = renamed[old]
