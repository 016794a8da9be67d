"""Why a program was compiled: where what was recorded leaves everything that was recorded before."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from xloom.environment import LOG
from xloom.torch.lazy.recording import log
from xloom.torch.lazy.recording.trace import Node, Trace

if TYPE_CHECKING:
    from xloom.torch.lazy.recording.sized_program import OfOneSize
    from xloom.torch.lazy.recording.trace_program import TraceProgram

KEPT = 1000
"""How many reports are remembered, the latest ones."""

_reports: deque[str] = deque(maxlen=KEPT)


def recompiles() -> list[str]:
    """The reports since the start, oldest first."""
    return list(_reports)


def explain(trace: Trace, wanted: tuple[int, ...]) -> str:
    """The difference of the new program's key from the nearest that was known."""
    node, left = trace.node, trace.left_known
    if left is None:
        return _same_operators(node, wanted)
    path = node.path()
    if left.parent is None and len(left.next) == 1:
        return f"the first program that begins with {_described(path[0])}"
    mine = path[left.depth]
    known = [each for each in left.next.values() if each is not mine]
    known.sort(key=lambda each: _likeness(each, mine))  # the most alike is the last
    lines = [f"operator {left.depth} of {node.depth} is new"]
    if not known:
        lines = [f"known programs end after {left.depth} operators, this one goes on"]
    lines += [f"  before: {_described(each)}" for each in known[-2:]]
    lines.append(f"  now:    {_described(mine)}")
    if known:
        lines.append(f"  differs in {_difference(known[-1], mine)}")
    return "\n".join(lines)


def _likeness(before: Node, now: Node) -> tuple[bool, bool]:
    a, b = before.signature, now.signature
    assert a is not None and b is not None
    return a.name == b.name, before.source == now.source


def _same_operators(node: Node, wanted: tuple[int, ...]) -> str:
    if not node.programs:
        return f"the run comes after {node.depth} operators of a longer program, last {_described(node)}"
    before = max(node.programs, key=lambda outputs: len(set(outputs) & set(wanted)))
    lines = ["the operators are known; other results are kept"]
    made_by = [made for made in node.path() if made.signature for _ in made.signature.outputs]
    lines += [f"  now kept:     {_described(made_by[k])}" for k in sorted(set(wanted) - set(before))]
    lines += [f"  no more kept: {_described(made_by[k])}" for k in sorted(set(before) - set(wanted))]
    return "\n".join(lines)


def _described(node: Node) -> str:
    return f"{node.signature} at {node.source or 'autograd'}"


def _difference(before: Node, now: Node) -> str:
    a, b = before.signature, now.signature
    assert a is not None and b is not None
    if a.name != b.name:
        return f"the operator: {a.name}, now {b.name}"
    if a.inputs != b.inputs:
        pairs = [f"{x}, now {y}" for x, y in zip(a.inputs, b.inputs, strict=False) if x is not y]
        return f"shapes or dtypes: {'; '.join(pairs) or 'the number of tensors'}; pad or bucket sizes that change"
    if a is b:
        return "what the operator is given: other results or arguments"
    if b.is_like(a):
        return "numbers, which are arguments of the program from now on"
    return "attributes: numbers that change belong into tensors"


def note(program: TraceProgram | OfOneSize, node: Node, reason: str) -> None:
    """Keeps a report."""
    report = f"program {len(_reports)}, {node.depth} operators, {len(program.outputs)} results: {reason}"
    _reports.append(report)
    if log.on or "recompiles" in LOG.text.split(","):
        for line in report.splitlines():
            log.write(f"compile     {line}")
