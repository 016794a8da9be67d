"""Arrays that a loop writes whole and does not read: what they are before it does not matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.interpreter.custom_call import ALLOCATE_BUFFER
from xloom.passes.base import Pass, instructions_of, register
from xloom.passes.dce import remove_keeping_order
from xloom.passes.integer_ranges import whole
from xloom.passes.loops import counted_trips, counting_of, in_each_iteration, initial, is_element, is_only_updated
from xloom.passes.product_blocking import BLOCKS
from xloom.passes.rewrite import editable_computations

_Callers = Mapping[Computation, Sequence[Instruction]]


@register
class DeadInitialValue(Pass):
    """Lets loops begin with memory as it is, for arrays of which each iteration stores a part until all is stored.

    For the planner: other passes take two such calls for the same value. The array before the loop is a constant or
    a broadcast; any other may have memory that the loop takes over.
    """

    name = "dead-initial-value"
    opcodes = ("while",)

    def run(self, module: Module) -> bool:
        """See the class."""
        callers = module.callers()
        changed = False
        for computation in editable_computations(module):
            for loop in instructions_of(computation, ("while",)):
                changed |= _allocate(loop, callers)
        return changed


def _allocate(loop: Instruction, callers: _Callers) -> bool:
    state, body = loop.operands[0], loop["body"]
    trips = counted_trips(loop) if body.root.opcode == "tuple" and state.opcode == "tuple" else None
    if not trips or loop.shape != state.shape or state.control_successors or state.control_predecessors:
        return False
    allocated = {
        k: _memory(first)
        for k, (first, last) in enumerate(zip(state.operands, body.root.operands, strict=True))
        if _is_filled(first, callers) and _stores_all(loop, k, last, trips)
    }
    if not allocated:
        return False
    # x'[k] is unspecified: s(n)[k] is read as what dynamic-update-slice writes to, and s(N)[k] has none of x[k] left
    assert loop.parent is not None
    operands = [allocated.get(k, first) for k, first in enumerate(state.operands)]
    loop.replace_operand(0, loop.parent.add(Instruction("tuple", "tuple", state.shape, operands)))
    for unused in dict.fromkeys((state, *state.operands)):
        if unused.is_dead:
            remove_keeping_order(unused)
    return True


def _is_filled(first: Instruction, callers: _Callers) -> bool:
    """True of an array that is made for the loop, or, of a loop in a loop, before the outer one."""
    while first.opcode == "get-tuple-element" and first.operands[0].opcode == "parameter":
        assert first.parent is not None
        outer = callers.get(first.parent, ())
        if len(outer) != 1 or outer[0].opcode != "while" or outer[0]["body"] is not first.parent:
            return False
        before = in_each_iteration(outer[0], first)
        if before is None:
            return False
        first = before
    return first.opcode in ("broadcast", "constant") and first.shape.rank > 0


def _memory(first: Instruction) -> Instruction:
    assert first.parent is not None
    attrs = {"custom_call_target": ALLOCATE_BUFFER}
    return first.parent.add(Instruction(ALLOCATE_BUFFER, "custom-call", first.shape, (), attrs))


def _stores_all(loop: Instruction, k: int, last: Instruction, trips: int) -> bool:
    """True where the loop only updates its element `k`, and at all places along one dimension."""
    if not is_only_updated(loop, k):
        return False
    array, update, *starts = last.operands
    if len(starts) != array.shape.rank:
        return False
    if loop.frontend_attributes.get(BLOCKS) == "true":
        return True
    counting = counting_of(loop)
    cut = [d for d, (n, part) in enumerate(zip(array.shape.dims, update.shape.dims, strict=True)) if n != part]
    if counting is None or len(cut) != 1:
        return False
    (d,) = cut
    begin, step = initial(loop, counting.index), in_each_iteration(loop, counting.step)
    where = _linear(starts[d], loop, counting.index)
    if begin is None or step is None or where is None:
        return False
    moved = where.slope * int(step.literal.value)
    first = where.slope * int(begin.literal.value) + where.offset
    low, high = sorted((first, first + moved * (trips - 1)))
    numbers = whole(starts[d].shape.dtype)
    if low < numbers.low or high > numbers.high:
        return False
    size, part = array.shape.dims[d], update.shape.dims[d]
    return 0 < abs(moved) <= part and low <= 0 and high + part >= size


class _Linear(NamedTuple):
    """slope * counter + offset."""

    slope: int
    offset: int


def _linear(value: Instruction, loop: Instruction, counter: int) -> _Linear | None:
    """How a number of the body depends on the loop's counter, if linearly and without wrapping around."""
    if is_element(value, loop["body"].parameters[0]) and value["index"] == counter:
        return _Linear(1, 0)
    known = in_each_iteration(loop, value)
    if known is not None and known.opcode == "constant" and known.shape.is_scalar and not known.literal.elided:
        return _Linear(0, int(known.literal.value))
    if value.opcode not in ("add", "subtract"):
        return None
    a, b = (_linear(o, loop, counter) for o in value.operands)
    if a is None or b is None:
        return None
    sign = 1 if value.opcode == "add" else -1
    return _Linear(a.slope + sign * b.slope, a.offset + sign * b.offset)
