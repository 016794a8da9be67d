"""`XLOOM_LOG=torch`: each operator's path from the Python line through the dispatcher and the bridge to HLO.

Counterpart of the call stack that one prints in a debugger to see how an operator of an XLA device comes to be.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from xloom.environment import LOG
from xloom.hlo import dtype as dt
from xloom.hlo.builder import Builder
from xloom.hlo.shape import array_shape
from xloom.process_identity import log_prefix
from xloom.torch.lazy.recording.source import caller
from xloom.torch.lowering import Graph

if TYPE_CHECKING:
    from xloom.torch.lazy.recording.signature import Signature
    from xloom.torch.lazy.recording.sized_program import OfOneSize
    from xloom.torch.lazy.recording.trace import Node, Trace
    from xloom.torch.lazy.recording.trace_program import TraceProgram

on = "torch" in LOG.text.split(",")
"""Whether to write; read by who records."""


def write(line: str) -> None:
    """One line on standard error."""
    print(f"{log_prefix()}xloom.torch: {line}", file=sys.stderr)


def dispatched(op: Any, handler: Any) -> None:
    """What torch's dispatcher called, and what of this package runs it."""
    write(f"{caller() or 'autograd'}")
    write(f"  dispatcher  {op}")
    made_by = handler.__qualname__.split(".")[0].strip("_")
    write(f"  bridge      {handler.__module__.rpartition('.')[2]}.{made_by}")


def recorded(node: Node) -> None:
    """What was recorded for it, and its HLO."""
    assert node.signature is not None
    write(f"  recorded    {node.signature} of {', '.join(_named(ref) for ref in node.refs) or 'nothing'}")
    for line in hlo_lines(node.signature):
        write(f"  HLO         {line}")


def _named(ref: int) -> str:
    return f"result {ref}" if ref >= 0 else f"argument {~ref}"


def hlo_lines(signature: Signature) -> list[str]:
    """The instructions of one operator, without its parameters."""
    b = Builder(signature.name, source_lines=False)
    inputs = [b.parameter(each.shape) for each in signature.input_types()]
    graph = Graph(b)
    graph.state = inputs.pop() if signature.random else None
    signature.build(graph, inputs, [b.parameter(array_shape(dt.f64, ())) for _ in range(signature.scalars)])
    return [each.to_text() for each in b._computation.instructions if each.opcode != "parameter"]


def started(program: TraceProgram | OfOneSize, trace: Trace) -> None:
    """A program that was given to the device."""
    if on:
        write(
            f"run         {trace.node.depth} operators, {len(trace.arguments)} arguments, "
            f"{len(trace.scalars)} numbers, {len(program.outputs)} results"
        )
