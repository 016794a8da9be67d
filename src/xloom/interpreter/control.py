"""Calls, loops, branches, tuples, tokens and asynchronous pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xloom.hlo.async_chain import async_computation
from xloom.interpreter.registry import TOKEN, Value, evaluates
from xloom.trampoline import Nested

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator


@evaluates("call", "fusion")
def call(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Nested[Value]:
    """The computation of the operands."""
    return evaluator.nested(instruction.called_computations[0], operands)


@evaluates("map")
def map_(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Nested[Value]:
    """The scalar computation of the elements at each place."""
    computation = instruction["to_apply"]
    if evaluator.is_batchable(computation):
        out = yield evaluator.nested(computation, operands)
    else:
        out = evaluator.elementwise(computation)(*operands)
    return np.broadcast_to(out, operands[0].shape)


@evaluates("while")
def while_(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Nested[Value]:
    """Body after body as long as the condition holds."""
    (state,) = operands
    condition, body = instruction["condition"], instruction["body"]
    while bool((yield evaluator.nested(condition, [state]))):
        state = yield evaluator.nested(body, [state])
    return state


@evaluates("conditional")
def conditional(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Nested[Value]:
    """True and false by a pred; by an index, where one out of range means the last branch."""
    chooser = operands[0]
    if chooser.dtype == np.bool_:
        taken = 0 if bool(chooser) else 1
    else:
        taken = int(chooser)
        count = len(operands) - 1
        taken = taken if 0 <= taken < count else count - 1
    return evaluator.nested(instruction.called_computations[taken], [operands[taken + 1]])


@evaluates("tuple")
def tuple_(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The operands."""
    return tuple(operands)


@evaluates("get-tuple-element")
def get_tuple_element(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The element."""
    return operands[0][instruction["index"]]


@evaluates("opt-barrier", "domain", "add-dependency")
def identity(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The first operand."""
    return operands[0]


@evaluates("after-all")
def after_all(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """A token."""
    return TOKEN


@evaluates("async-start")
def async_start(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Runs to its end at once: (operands, result, state)."""
    computation = instruction["calls"]
    result = evaluator.call(computation, operands) if len(computation.parameters) == len(operands) else None
    rest = tuple(np.zeros((), np.uint32) for _ in instruction.shape.elements[2:])
    return (tuple(operands), result, *rest)


@evaluates("async-update")
def async_update(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The state; operands that it adds complete a late-bound start."""
    state = operands[0]
    if state[1] is not None and len(operands) == 1:
        return state
    bound = (*state[0], *operands[1:])
    computation = async_computation(instruction)
    assert computation is not None
    ready = len(computation.parameters) == len(bound)
    return (bound, evaluator.call(computation, bound) if ready else None, *state[2:])


@evaluates("async-done")
def async_done(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The result."""
    return operands[0][1]


@evaluates("copy-start")
def copy_start(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """(destination, source, context)."""
    return (operands[0], operands[0], np.zeros((), np.uint32))


@evaluates("copy-done")
def copy_done(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The destination."""
    return operands[0][0]
