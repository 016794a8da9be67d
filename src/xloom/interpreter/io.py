"""Infeed, outfeed, send and receive: queues of the evaluator stand for the host and the other end."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xloom.calls.registry import program_name
from xloom.errors import EvaluationError
from xloom.interpreter.registry import TOKEN, Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator


@evaluates("infeed")
def infeed(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The next value of `evaluator.infeed`, and a token."""
    return (next_infeed(evaluator.infeed, instruction), TOKEN)


def next_infeed(queue: deque[Value], instruction: Instruction) -> Value:
    """The next value for an infeed. Raises EvaluationError when there is none."""
    if not queue:
        raise EvaluationError(
            "the infeed queue is empty",
            where=program_name(instruction),
            hint="pass infeed=[...] with one value an infeed",
        )
    return queue.popleft()


@evaluates("outfeed")
def outfeed(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Appends to `evaluator.outfeed`."""
    evaluator.outfeed.append(operands[0])
    return TOKEN


@evaluates("send")
def send(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Appends to the channel's queue."""
    evaluator.channel(instruction["channel_id"]).append(operands[0])
    return (operands[0], np.zeros((), np.uint32), TOKEN)


@evaluates("send-done")
def send_done(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """A token."""
    return TOKEN


@evaluates("recv")
def recv(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The next value of the channel's queue."""
    queue = evaluator.channel(instruction["channel_id"])
    return (next_received(queue, instruction), np.zeros((), np.uint32), TOKEN)


def next_received(queue: deque[Value], instruction: Instruction) -> Value:
    """The next value for a recv. Raises EvaluationError when there is none."""
    if not queue:
        raise EvaluationError(
            f"nothing was sent on channel {instruction['channel_id']}",
            where=program_name(instruction),
            hint="run the sender first, in the same program",
        )
    return queue.popleft()


@evaluates("recv-done")
def recv_done(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The data and a token."""
    return (operands[0][0], TOKEN)
