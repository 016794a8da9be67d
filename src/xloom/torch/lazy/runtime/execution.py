"""Running what was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xloom.pjrt.buffer import Buffer
from xloom.torch.lazy.recording import donation, log, recompiles, sized_program
from xloom.torch.lazy.recording.sized_program import OfOneSize
from xloom.torch.lazy.recording.trace import TRACE, Trace, Value
from xloom.torch.lazy.recording.trace_program import TraceProgram, build
from xloom.torch.lazy.runtime import held_memory
from xloom.torch.metrics import METRICS


def flush() -> None:
    """Starts the program that computes all results that are still referenced; does not wait for them."""
    with TRACE.lock:
        live = TRACE.live()
        if live:
            _start(TRACE, live)
        if TRACE.results:
            TRACE.begin()
            held_memory.note_peak()  # once what the program was given away is gone


TRACE.run = flush


@contextmanager
def one_program() -> Iterator[None]:
    """What is recorded meanwhile is run when it is asked for, and not before."""
    before, TRACE.run = TRACE.run, None
    try:
        yield
    finally:
        TRACE.run = before


def is_eager() -> bool:
    """Whether each operator is run at once."""
    return TRACE.after_operator is not None


def _start(trace: Trace, live: list[Value]) -> None:
    wanted = tuple([value.index for value in live])
    program = trace.node.programs.get(wanted) or _wider(trace, wanted)
    if program is None:
        reason, known = recompiles.explain(trace, wanted), METRICS.programs
        try:
            program = sized_program.find(trace, wanted)
            if program is None:
                free = donation.unused(trace.arguments, range(len(trace.arguments)))
                program = TraceProgram(build(trace.node, wanted), wanted, free)
            trace.node.programs[wanted] = program
        except BaseException:
            trace.begin()  # what cannot be compiled is not tried again with all that follows
            raise
        trace.programs += 1
        if METRICS.programs > known:
            recompiles.note(program, trace.node, reason)
    trace.node.used = trace.epoch
    try:
        buffers = program.run(trace.arguments, trace.packed_scalars())
    except BaseException as error:  # what fails is not run again with all that follows: its results have the error
        _give(live, wanted, program, program.failed(error))
        trace.begin()
        raise
    log.started(program, trace)
    _give(live, wanted, program, buffers)


def _give(live: list[Value], wanted: tuple[int, ...], program: TraceProgram | OfOneSize, buffers: list[Buffer]) -> None:
    at = {index: k for k, index in enumerate(program.outputs)} if program.outputs != wanted else None
    for k, value in enumerate(live):
        buffer = buffers[k if at is None else at[value.index]]
        value.buffer = buffer
        held_memory.hold(value.type, buffer)


def _wider(trace: Trace, wanted: tuple[int, ...]) -> TraceProgram | OfOneSize | None:
    """A program that gives what is wanted and little else; so the garbage collector's whims compile nothing."""
    for outputs, program in trace.node.programs.items():
        if len(outputs) <= len(wanted) + 8 and set(outputs).issuperset(wanted):
            return program
    return None


def buffer_of(value: Value) -> Value:
    """The value, with its buffer known: what leads to it is started."""
    if value.buffer is None:
        flush()
    return value
