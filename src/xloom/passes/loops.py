"""What is known about a while loop before it runs: how its state is used, and a small trip count."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from xloom.errors import XloomError
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.interpreter.evaluator import Evaluator
from xloom.interpreter.registry import Value
from xloom.passes.folding_limits import Foldable

_MAX_WORK = 1 << 20


@dataclass(frozen=True)
class Needs:
    """What some values of a computation depend on: these instructions, operands first, and these state elements."""

    instructions: list[Instruction]
    elements: set[int]


def needs(computation: Computation, values: Iterable[Instruction]) -> Needs | None:
    """What `values` depend on; None when they use the state other than element by element."""
    (state,) = computation.parameters
    seen: set[Instruction] = set()
    stack = list(values)
    elements: set[int] = set()
    while stack:
        instruction = stack.pop()
        if instruction in seen:
            continue
        if instruction is state:
            return None
        seen.add(instruction)
        if is_element(instruction, state):
            elements.add(instruction["index"])
        else:
            stack.extend(instruction.operands)
            stack.extend(instruction.control_predecessors)
    return Needs([i for i in computation.post_order() if i in seen], elements)


def is_element(instruction: Instruction, of: Instruction) -> bool:
    """True for get-tuple-element of `of`."""
    return instruction.opcode == "get-tuple-element" and instruction.operands[0] is of


def element_of(whole: Instruction, index: int) -> Instruction:
    """A new get-tuple-element of an instruction that gives a tuple."""
    assert whole.parent is not None
    new = Instruction("get-tuple-element", "get-tuple-element", whole.shape.elements[index], [whole], {"index": index})
    return whole.parent.add(new)


def is_only_updated(loop: Instruction, index: int) -> bool:
    """True where each iteration stores a part of element `index` of the state, which nothing in the loop reads."""
    body, states = loop["body"], (loop["body"].parameters[0], loop["condition"].parameters[0])
    last = body.root.operands[index]
    if last.opcode != "dynamic-update-slice" or last.users != (body.root,) or body.root.operands.count(last) > 1:
        return False
    if not all(is_element(user, state) for state in states for user in state.users):
        return False
    array = last.operands[0]
    readers = [user for state in states for user in state.users if user["index"] == index]
    return readers == [array] and array.users == (last,)


def initial(loop: Instruction, index: int) -> Instruction | None:
    """Element `index` of the loop's first state, where that is put together by `tuple`."""
    state = loop.operands[0]
    return state.operands[index] if state.opcode == "tuple" else None


class Counting(NamedTuple):
    """How a loop counts: element `index` of its state grows by `step` as long as it is less than `bound`.

    `bound` is an instruction of the condition, `step` one of the body.
    """

    index: int
    bound: Instruction
    step: Instruction


def counting_of(loop: Instruction) -> Counting | None:
    """How `loop` counts its iterations, if it does and nothing else ends it."""
    root = loop["condition"].root
    (state,) = loop["condition"].parameters
    if root.opcode != "compare" or root["direction"] != "LT" or not is_element(root.operands[0], state):
        return None
    index, (before,) = root.operands[0]["index"], loop["body"].parameters
    after = loop["body"].root
    if after.opcode != "tuple" or after.operands[index].opcode != "add":
        return None
    counter, step = after.operands[index].operands
    if not is_element(counter, before) or counter["index"] != index or not counter.shape.dtype.is_integer:
        return None
    return Counting(index, root.operands[1], step)


def counted_trips(loop: Instruction) -> int | None:
    """How often the body of `loop` runs, if the loop counts up to a constant; nothing is evaluated."""
    counting = counting_of(loop)
    if counting is None:
        return None
    index, bound, step = counting
    numbers = [initial(loop, index), in_each_iteration(loop, bound), in_each_iteration(loop, step)]
    literals = [x.literal for x in numbers if x is not None and x.opcode == "constant" and not x.literal.elided]
    if len(literals) < len(numbers):
        return None
    begin, end, by = (int(x.value) for x in literals)
    if by <= 0:
        return None
    # s(n) == begin + n * by, while that does not wrap around: s(count) is the first that is not less than `end`
    count = len(range(begin, end, by))
    dtype = loop["condition"].root.operands[0].shape.dtype
    limit = 1 << (dtype.bits - (dtype.kind is Kind.SIGNED))
    return count if begin + count * by < limit else None


def in_each_iteration(loop: Instruction, value: Instruction) -> Instruction | None:
    """What `value`, of the condition or the body, is in each iteration: itself, or what the state begins and stays."""
    assert value.parent is not None
    if not is_element(value, value.parent.parameters[0]):
        return value
    index, body = value["index"], loop["body"]
    kept = body.root.operands[index]
    is_kept = is_element(kept, body.parameters[0]) and kept["index"] == index
    return initial(loop, index) if is_kept else None


def known_trip_count(loop: Instruction, limit: int) -> int | None:
    """How often the body of `loop` runs, if that follows from constants and is at most `limit`.

    Only the part of the state that decides about the end is evaluated.
    """
    condition, body = loop["condition"], loop["body"]
    root = body.root
    test = needs(condition, [condition.root])
    if test is None or root.opcode != "tuple":
        return None
    # the elements that the condition's depend on, in the end
    while True:
        step = needs(body, [root.operands[k] for k in sorted(test.elements)])
        if step is None:
            return None
        if step.elements <= test.elements:
            break
        test.elements.update(step.elements)
    foldable = Foldable()
    work = sum(map(foldable.work, test.instructions + step.instructions))
    if math.isinf(work) or work * (limit + 1) > _MAX_WORK:
        return None
    state: dict[int, Value] = {}
    for k in test.elements:
        first = initial(loop, k)
        if first is None or first.opcode != "constant" or first.literal.elided or not first.shape.is_array:
            return None
        state[k] = first.literal.value
    assert condition.module is not None
    evaluator = Evaluator(condition.module)
    try:
        for count in range(limit + 1):
            if not bool(_evaluate(test, state, evaluator)[condition.root]):
                return count
            if count < limit:
                values = _evaluate(step, state, evaluator)
                state = {k: values[root.operands[k]] for k in state}
    except XloomError:
        return None
    return None


def _evaluate(what: Needs, state: dict[int, Value], evaluator: Evaluator) -> dict[Instruction, Value]:
    values: dict[Instruction, Value] = {}
    for instruction in what.instructions:
        if instruction.opcode == "get-tuple-element" and instruction.operands[0] not in values:
            values[instruction] = state[instruction["index"]]
        else:
            values[instruction] = evaluator.apply(instruction, [values[o] for o in instruction.operands])
    return values
