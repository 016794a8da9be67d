"""Producer-consumer fusion: which instructions have an array in memory, and which are computed where they are used?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from operator import mul
from typing import Any

from xloom.codegen.buffer_values import BufferValue, defining_value
from xloom.codegen.elemental.loop_nests import loop_dims
from xloom.codegen.fusion.fusion_group import FusionGroup, inlined_by, is_alias, is_fusible
from xloom.codegen.fusion.in_place_updates import (
    before_updates,
    loop_state_before,
    reads_only_what_it_writes,
    reads_where_it_stores,
)
from xloom.codegen.kernel_facts import unread_operands
from xloom.codegen.ops import OP_ROWS, Role, Trait, having
from xloom.codegen.thresholds import TRANSPOSED_SIDE
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction

NODE_LIMIT = 190
"""Instructions in one expression, but for constants and broadcasts: LLVM's time grows faster than the number."""
COST_LIMIT = 600
"""About how many additions an element of one expression costs, for the same reason: a sine is many instructions."""
DEPTH_LIMIT = 120
"""Instructions one in the other in one kernel."""
PATH_LIMIT = 8
"""Different places in one kernel where an instruction's elements may be computed again."""
REDUCED_ARRAYS = 6
"""Arrays put together among which a reduction along them may choose for each element."""

_ROOTS = frozenset(name for name, row in OP_ROWS.items() if row.role is Role.ROOT)
_FORWARDING = having(Trait.FORWARDS)
_FREE = having(Trait.FREE)
_KEEPS_ORDER = having(Trait.KEEPS_ORDER)
_OF_PARTS = having(Trait.OF_PARTS)


@dataclass(frozen=True)
class Fusion:
    """Which instructions of a computation have arrays in memory; all others are computed where they are used."""

    root: Instruction
    order: list[Instruction]
    """All instructions, operands first."""
    stored: set[Instruction]
    reasons: dict[Instruction, str]
    """Why each of them is."""
    together: dict[Instruction, Instruction]
    """Of expressions cut in two that share what is costly, one of them: one loop nest makes these, and no others."""


def producer_consumer_fusion(computation: Computation) -> Fusion:
    """Decides which results of one computation are stored."""
    return _Decision(computation).made()


class _Decision:
    def __init__(self, computation: Computation):
        self.root = computation.root
        self.order = computation.post_order()
        self.stored: set[Instruction] = set()
        self.reasons: dict[Instruction, str] = {}
        self._cuts: set[Instruction] = set()
        self._together: dict[Instruction, Instruction] = {}
        """Of cuts that share what is costly, the first."""
        self._trees: dict[Instruction, set[Instruction]] = {}
        """What each element is computed of, by itself."""
        self._spared: dict[Instruction, int] = {}
        """Elements that need not be computed again where an instruction is stored for no other reason."""
        self._in_parts: set[Instruction] = set()
        self._divided: set[Instruction] = set()
        """What is read at places that divisions find at run time."""
        self._repeated: set[Instruction] = set()
        """What repeats an array, of which no loops that go along this make up what is read."""
        self._reduced: dict[Instruction, frozenset[int]] = {}
        """Dimensions that a reduction that computes an instruction's elements goes along."""

    def made(self) -> Fusion:
        """Decides which values are stored, and why the others are not."""
        self._cuts = self._long_expressions()
        self._decide()
        self._compute_again()
        self._separate_updates()
        self._separate_slices_of_state()
        return Fusion(self.root, self.order, self.stored, self.reasons, self._together)

    # -- how much
    def _long_expressions(self) -> set[Instruction]:
        """Instructions to store so that no expression is longer than the limit."""
        cuts: set[Instruction] = set()
        trees = self._trees
        depths: dict[Instruction, int] = {}
        behind: dict[Instruction, Instruction] = {}
        """The first cut that is computed of each costly instruction."""
        for instruction in self.order:
            if not is_fusible(instruction):
                continue
            parts = [o for o in instruction._operands if o in trees and o not in cuts and o.opcode not in _ROOTS]
            tree = {instruction}.union(*(trees[p] for p in parts))
            while _is_long(tree) or any(depths[p] >= DEPTH_LIMIT for p in parts):
                largest = max(parts, key=lambda p: len(trees[p]))
                parts = [p for p in parts if p is not largest]
                largest = self._cut(largest, depths)
                cuts.add(largest)
                for each in trees.get(largest, ()):  # what is no part of loop nests has none
                    if OP_ROWS[each.opcode].cost >= _COSTLY:
                        behind.setdefault(each, largest)
                tree = {instruction}.union(*(trees[p] for p in parts))
            if behind and (shared := self._shared_with_a_cut(parts, behind)):
                part, first = shared
                parts = [p for p in parts if p is not part]
                part = self._cut(part, depths)
                self._together[part] = self._together[first] = first
                cuts.add(part)
                tree = {instruction}.union(*(trees[p] for p in parts))
            trees[instruction] = tree
            depths[instruction] = 1 + max((depths[p] for p in parts), default=0)
        return cuts

    def _cut(self, part: Instruction, depths: dict[Instruction, int]) -> Instruction:
        """What is stored where an expression ends before `part`: the value that it forwards, if it does."""
        while part.opcode in _FORWARDING:
            self._trees[part], depths[part] = {part}, 1
            part = part._operands[0]
        return part

    def _shared_with_a_cut(
        self, parts: Sequence[Instruction], behind: dict[Instruction, Instruction]
    ) -> tuple[Instruction, Instruction] | None:
        """A part, and a cut that has all that is costly in it, where another part has something else.

        Both are then made by one loop nest, which computes that once; what comes after them is of neither.
        """
        costly = {p: [i for i in self._trees[p] if OP_ROWS[i.opcode].cost >= _COSTLY] for p in parts}
        for part, found in costly.items():
            cut = behind.get(found[0]) if len(found) > 1 else None
            if cut is None or part in behind or loop_dims(_forwarded(part)) != loop_dims(cut):
                continue
            others = (i for other in parts if other is not part for i in costly[other])
            if all(behind.get(i) is cut for i in found) and any(behind.get(i) is not cut for i in others):
                return part, cut
        return None

    def _tree_cost(self, instruction: Instruction) -> int:
        return _cost(self._trees[instruction])

    # -- which
    def _decide(self) -> None:
        paths: dict[Instruction, dict[tuple, int]] = {}
        needed: set[Instruction] = {self.root}
        for instruction in reversed(self.order):
            if is_alias(instruction.opcode) and (instruction in needed or not is_fusible(instruction)):
                needed.update(instruction._operands)
                continue
            if not is_fusible(instruction):
                skipped = unread_operands(instruction)
                needed.update(o for k, o in enumerate(instruction._operands) if k not in skipped)
                self._store(instruction, "it is no part of loop nests")
                continue
            here = paths.get(instruction, {})
            reason = self._reason_to_store(instruction, here, instruction in needed)
            if reason:
                self._store(instruction, reason)
                here = {(self._together.get(instruction, instruction),): _extent(instruction)}
            if instruction.opcode == "dynamic-update-slice":
                needed.add(instruction._operands[0])
            if instruction.opcode in _OF_PARTS or (instruction in self._in_parts and instruction not in self.stored):
                self._in_parts.update(instruction._operands)
            if instruction not in self.stored and (
                _divides(instruction) or (instruction.op.elementwise and instruction in self._divided)
            ):
                self._divided.update(instruction._operands)
            if (repeats := _repeated_in_part(instruction)) is not None:
                self._repeated.add(repeats)
            if instruction not in self.stored or instruction.opcode == "reduce":
                self._note_reduced(instruction)
            for k, operand in enumerate(instruction._operands):
                if operand not in needed:
                    _extend(paths.setdefault(operand, {}), here, instruction, operand, k)

    def _note_reduced(self, instruction: Instruction) -> None:
        """Says of its operands along which dimensions they are reduced."""
        dims = self._reduced.get(instruction)
        if instruction.opcode == "reduce":
            dims = frozenset(instruction["dimensions"])
        elif not instruction.op.elementwise:
            return
        for operand in instruction._operands:
            if dims and operand.shape.rank:
                self._reduced[operand] = self._reduced.get(operand, frozenset()) | dims

    def _store(self, instruction: Instruction, reason: str) -> None:
        self.stored.add(instruction)
        self.reasons[instruction] = reason

    def _reason_to_store(self, instruction: Instruction, here: dict[tuple, int], needed: bool) -> str:
        """Why it has an array in memory; nothing if its elements are computed where they are used."""
        if needed:
            return "it is a result, or read as an array"
        if instruction.opcode in _ROOTS:
            return f"a {instruction.opcode} is fused with what it reads, not with what reads it"
        if instruction in self._cuts:
            return f"expressions of more than {NODE_LIMIT} operators, or {DEPTH_LIMIT} in each other, are cut"
        if instruction in self._in_parts and _crosses(instruction):
            return "a transpose in tiles cannot be a part of an array"
        if instruction in self._divided and _turns(instruction) and 2 * sum(here.values()) >= instruction.shape.size:
            return "a reshape would read it in another order at places that only divisions tell"
        if instruction in self._repeated:
            return "a part of an array that is repeated would be read at places that only divisions tell"
        if (
            instruction.opcode == "concatenate"
            and len(instruction._operands) > REDUCED_ARRAYS
            and instruction["dimensions"][0] in self._reduced.get(instruction, ())
        ):
            return "a reduction along the arrays put together would choose among so many for each element"
        size = instruction.shape.size
        total = sum(here.values())
        if total <= size or instruction.opcode in _FREE:
            return ""
        cost = self._tree_cost(instruction)
        if len(here) <= PATH_LIMIT and not self._is_worth_it(cost, size, total - size):
            return ""
        self._spared[instruction] = total - size
        uses = f"{len(here)} places" if len(here) > 1 else "one place"
        return f"{uses} would compute {total} elements of {size}, each at the cost of {cost} additions"

    @staticmethod
    def _is_worth_it(cost: int, size: int, again: int) -> bool:
        """Whether so many elements more at this cost take longer than all once to memory and back for each use.

        A single one is hardly ever out of the registers.
        """
        return cost * again > (4 * (2 * size + again) if size > 1 else _COSTLY)

    # -- of what is stored anyway
    def _compute_again(self) -> None:
        """Takes back what is stored although little is between it and one other array."""
        for instruction in self.order:
            again = self._spared.get(instruction)
            if again is None:
                continue
            cost = self._cost_from_one_array(instruction)
            if cost is not None and not self._is_worth_it(cost, instruction.shape.size, again):
                self.stored.discard(instruction)
                del self.reasons[instruction]

    def _cost_from_one_array(self, instruction: Instruction) -> int | None:
        """What an element costs that is computed of one array in memory, of whatever small ones, and in few steps."""
        size, cost = instruction.shape.size, 0
        arrays: set[Instruction] = set()
        seen = {instruction}
        stack = [instruction]
        while stack:
            found = stack.pop()
            if not found.op.elementwise and found.opcode not in _KEEPS_ORDER:
                return None
            cost += 0 if found.opcode in _FREE else OP_ROWS[found.opcode].cost
            for operand in found._operands:
                if operand in seen or operand.shape.size * _SMALL <= size:
                    continue
                seen.add(operand)
                if operand in self.stored or not is_fusible(operand):
                    arrays.add(operand)
                else:
                    stack.append(operand)
            if len(arrays) > 1 or len(seen) > _STEPS:
                return None
        return cost

    # -- of what is changed where it lies
    def _separate_updates(self) -> None:
        """Stores small updates that read elsewhere in the array that they change: else all of it would be copied.

        And numbers that say where, if they are read there.
        """
        for instruction in self.order:
            if instruction.opcode != "dynamic-update-slice" or instruction not in self.stored:
                continue
            changed, update, *starts = instruction._operands
            if update.shape.size * _SMALL > changed.shape.size:
                continue
            for start in () if update.shape.size == 1 else map(_forwarded, starts):
                if start not in self.stored and is_fusible(start) and self._reads(start, changed):
                    self._store(start, f"it says where %{changed.name} is changed, and is read there")
            if update in self.stored or not is_fusible(update):
                continue
            group = FusionGroup([[instruction]], inlined_by([instruction], self.stored))
            if not reads_only_what_it_writes(group, instruction):
                update = _forwarded(update)
                if is_fusible(update) and update.opcode not in ("constant", "iota"):
                    self._store(update, f"what it reads in %{changed.name} is elsewhere than what it changes")

    def _reads(self, instruction: Instruction, array: Instruction) -> bool:
        """True when an instruction that is stored would read an array."""
        group = FusionGroup([[instruction]], inlined_by([instruction], self.stored))
        return defining_value(array) in group.values_read

    def _separate_slices_of_state(self) -> None:
        """Stores small slices of a loop's state that its new value is made of: else the state would be copied back."""
        for new, state in loop_state_before(self.root):
            if new not in self.stored or not new.op.elementwise or new.shape.size < _MANY:
                continue
            group = FusionGroup([[new]], inlined_by([new], self.stored))
            read = dict.fromkeys(node.source for nodes in group.loads for node in nodes)
            for old in [v for v in read if defining_value(before_updates(v[0]), v[1]) == state]:
                self._separate_slices(new, group, old)

    def _separate_slices(self, new: Instruction, group: FusionGroup, old: BufferValue) -> None:
        """Stores small slices of the value `old` that `new` is made of, if it then can be made where that lies."""
        if reads_where_it_stores(group, old):
            return
        slices = [i for i in group.inlined if i.opcode in _SLICES and defining_value(i._operands[0]) == old]
        slices = [i for i in slices if i.shape.size * _SMALL <= new.shape.size]
        group = FusionGroup([[new]], inlined_by([new], {*self.stored, *slices}))
        if reads_where_it_stores(group, old):
            for each in slices:
                self._store(each, f"the rest of the state is changed where it lies, element by element, in %{new.name}")


def _forwarded(value: Instruction) -> Instruction:
    """What operators that leave an array where it lies are given as `value`."""
    while value.opcode in _FORWARDING:
        value = value._operands[0]
    return value


_SLICES = frozenset({"slice", "dynamic-slice"})


def _cost(tree: set[Instruction]) -> int:
    return sum(OP_ROWS[i.opcode].cost for i in tree if i.opcode not in _FREE)


def _is_long(tree: set[Instruction]) -> bool:
    length = sum(i.opcode not in ("constant", "broadcast") for i in tree)
    return length > NODE_LIMIT or (length > _SHORT and _cost(tree) > COST_LIMIT)


_SHORT = COST_LIMIT // max(row.cost for row in OP_ROWS.values())
_COSTLY = 8
"""Additions that are worth an array in memory, or a loop nest with others."""
_SMALL = 8
"""How much less than a result an array has that is read as often as one likes."""
_STEPS = 8
"""Instructions between an array and what is computed of it again."""


def _extent(instruction: Instruction) -> int:
    """How many elements a stored instruction evaluates of each elementwise operand."""
    size = 1
    for dim in loop_dims(instruction):
        size *= dim
    if instruction.opcode == "reduce":
        return instruction._operands[0].shape.size
    return size


def _extend(paths: dict[tuple, int], here: dict[tuple, int], user: Instruction, operand: Instruction, k: int) -> None:
    """Adds the places where `user` needs elements of its operand number k."""
    same = user.op.elementwise and operand.shape.rank == user.shape.rank
    for path, count in here.items():
        key: tuple[Any, ...] = path if same else (*path, user, k)
        if operand.shape.size == 1:  # it does not change in the loops, but each array put together has its own
            parts = (step for step in zip(key[1::2], key[2::2], strict=True) if step[0].opcode == "concatenate")
            paths[(key[0], *chain.from_iterable(parts))] = 1
            continue
        if user.opcode == "concatenate":
            count = max(1, count * operand.shape.size // max(1, user.shape.size))
        elif user.opcode == "pad":
            count = max(1, min(count, count * operand.shape.size // max(1, user.shape.size)))
        elif user.opcode == "reduce" and user not in path:
            count *= operand.shape.size // max(1, user.shape.size)
        paths[key] = count


def _crosses(instruction: Instruction) -> bool:
    """True of a transpose that is done in tiles, which parts of an array are not."""
    if not _turns(instruction):
        return False
    return min(instruction.shape.dims[-1], instruction._operands[0].shape.dims[-1]) >= TRANSPOSED_SIDE


def _turns(instruction: Instruction) -> bool:
    """True of a transpose of a large array that takes neighbours apart."""
    if instruction.opcode != "transpose" or instruction.shape.size < _MANY:
        return False
    return instruction["dimensions"][-1] != instruction.shape.rank - 1


def _divides(instruction: Instruction) -> bool:
    """True of a reshape whose dimensions and its operand's have no common parts: no loops go along both."""
    if instruction.opcode != "reshape" or not instruction.shape.size:
        return False
    ends = {n for i in (instruction, instruction._operands[0]) for n in accumulate(i.shape.dims, mul)}
    return any(after % before for before, after in pairwise(sorted(ends)))


def _repeated_in_part(instruction: Instruction) -> Instruction | None:
    """The broadcast that repeats an array again and again, where a slice takes so much that not all are whole."""
    if instruction.opcode != "slice" or instruction.shape.rank != 1:
        return None
    merged = instruction._operands[0]
    repeats = merged._operands[0] if merged.opcode == "reshape" else merged
    if repeats.opcode != "broadcast" or repeats.shape.rank < 2 or 0 in repeats["dimensions"]:
        return None
    ((start, limit, stride),) = instruction["slice"]
    once = repeats.shape.size // repeats.shape.dims[0]
    whole = start % once == 0 and limit % once == 0
    if stride != 1 or whole or limit - start <= once or repeats.shape.size > 2 * instruction.shape.size:
        return None
    return repeats if repeats.shape.nbytes <= _NEAR else None


_NEAR = 2 << 20
"""Bytes that are written and read once more in less time than a division an element takes."""
_MANY = 4096
"""Elements that are worth writing and reading once more."""
