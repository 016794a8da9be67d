"""Infeed, outfeed, send and receive: queues in this process stand for the host and the other end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xloom.calls.buffers import fill
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.custom_calls.python_callback import call_python
from xloom.cpu.custom_calls.run import Run
from xloom.hlo.instruction import Instruction
from xloom.interpreter.io import next_infeed, next_received
from xloom.interpreter.registry import TOKEN
from xloom.interpreter.values import from_argument

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder


def infeed(entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction) -> None:
    """Takes the next value of the run's infeed."""
    shape = instruction.shape.elements[0]

    def body(run: Run, out: Any, inputs: list[Any]) -> None:
        fill(out[0], from_argument(next_infeed(run.infeed, instruction), shape, instruction.name))

    call_python(entry, schedule, instruction, [], body)


def outfeed(entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction) -> None:
    """Appends to the executable's outfeed."""

    def body(run: Run, out: Any, inputs: list[Any]) -> None:
        run.outfeed.append(_copied(inputs[0]))

    call_python(entry, schedule, instruction, [instruction._operands[0].shape], body)


def send(entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction) -> None:
    """Appends to the channel's queue; the result is the data, zero and a token."""
    channel = instruction["channel_id"]

    def body(run: Run, out: Any, inputs: list[Any]) -> None:
        run.channel(channel).append(_copied(inputs[0]))
        fill(out[0], inputs[0])

    call_python(entry, schedule, instruction, [instruction._operands[0].shape], body)


def receive(entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction) -> None:
    """Takes the next value of the channel's queue; the result is that, zero and a token."""

    def body(run: Run, out: Any, inputs: list[Any]) -> None:
        fill(out[0], next_received(run.channel(instruction["channel_id"]), instruction))

    call_python(entry, schedule, instruction, [], body)


def _copied(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_copied(v) for v in value)
    return TOKEN if value is None else value.copy()
