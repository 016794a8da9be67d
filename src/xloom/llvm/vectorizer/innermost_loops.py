"""The loops of a function that hold no others, of the form that `llvm.loop.loop` gives them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as kinds

from xloom.llvm.vectorizer.branches import certain, following, ordered
from xloom.llvm.vectorizer.not_plain import NotPlain

_LEFT = {"llvm.loop.disable_nonforced", "llvm.loop.vectorize.enable"}
"""Hints of loops that are to stay scalar."""
_UNROLLED = "llvm.loop.unroll.full"
_INTERLEAVED = "llvm.loop.interleave.count"
_SHORT = 128
"""Iterations of a scalar loop that takes little time, however often its function goes through it."""


@dataclass(eq=False)
class InnermostLoop:
    """`for (i64 variable = begin; variable < end; variable += step)`."""

    before: ir.Block
    head: ir.Block
    body: Sequence[ir.Block]
    """Each after those that lead to it; the last one counts."""
    done: ir.Block
    variable: Any
    begin: ir.Value
    end: ir.Value
    step: int
    interleaved: int
    """How many vectors are to be computed side by side; 0 where nobody says."""

    @cached_property
    def instructions(self) -> Sequence[ir.Instruction]:
        """What one iteration does or, where it branches, may do, but for its counting."""
        return [i for block in self.body for i in self.instructions_of(block)]

    def instructions_of(self, block: ir.Block) -> Sequence[ir.Instruction]:
        """Those of a block, without its branch and the counting."""
        return block.instructions[: -2 if block is self.body[-1] else -1]

    @cached_property
    def conditions(self) -> Sequence[ir.Value]:
        """What the branches inside depend on."""
        ends = [block.instructions[-1] for block in self.body]
        return [end.operands[0] for end in ends if isinstance(end, kinds.ConditionalBranch)]

    @cached_property
    def _certain(self) -> set[ir.Block]:
        return set(certain(self.body))

    def is_certain(self, i: ir.Instruction) -> bool:
        """True of what every iteration does."""
        return i.parent in self._certain

    @property
    def count(self) -> int | None:
        """How many iterations there are, where that is known."""
        length = _difference(self.begin, self.end)
        return None if length is None else max(0, -(-length // self.step))


def _difference(begin: Any, end: Any) -> int | None:
    if isinstance(begin, ir.Constant) and isinstance(end, ir.Constant):
        return end.constant - begin.constant
    if getattr(end, "opname", "") == "add" and end.operands[0] is begin and isinstance(end.operands[1], ir.Constant):
        return end.operands[1].constant
    return None


def innermost_loops(function: ir.Function, *, every: bool = False) -> list[InnermostLoop]:
    """The loops that are to be vectors. Raises NotPlain if there is one of another form.

    Those that are to stay scalar, or are written as vectors, are left out; or, where `every` one counts, are not plain
    but if they are short.
    """
    before: dict[ir.Block, list[ir.Block]] = defaultdict(list)
    for block in function.blocks:
        for other in following(block):
            before[other].append(block)
    numbers = {block: k for k, block in enumerate(function.blocks)}
    found: list[InnermostLoop] = []
    bodies = {}
    for head in function.blocks:
        latches = [b for b in before[head] if numbers[b] >= numbers[head]]  # a loop's blocks come after its head
        if latches:
            bodies[head] = set().union(*[_natural_loop(before, head, latch) for latch in latches])
    for head, body in bodies.items():
        if any(other is not head and other in body for other in bodies):
            continue
        names, interleaved = _hints(before[head], body)
        if _UNROLLED in names:
            raise NotPlain
        is_vectors = any(isinstance(i.type, ir.VectorType) for block in body for i in block.instructions)
        if names & _LEFT or is_vectors:
            count = _plain(head, body, before[head], interleaved).count if every else 0
            if count is None or count > _SHORT:
                raise NotPlain
            continue
        found.append(_plain(head, body, before[head], interleaved))
    return found


def _natural_loop(before: dict[ir.Block, list[ir.Block]], head: ir.Block, latch: ir.Block) -> set[ir.Block]:
    seen = {head}
    stack = [latch]
    while stack:
        block = stack.pop()
        if block not in seen:
            seen.add(block)
            stack.extend(before[block])
    return seen


def _hints(into_head: Sequence[ir.Block], body: set[ir.Block]) -> tuple[set[str], int]:
    names: set[str] = set()
    interleaved = 0
    for block in into_head:
        identity = block.instructions[-1].metadata.get("llvm.loop") if block in body else None
        for flag in identity.operands[1:] if identity is not None else ():
            name = flag.operands[0].string
            names.add(name)
            if name == _INTERLEAVED:
                interleaved = flag.operands[1].constant
    return names, interleaved


def _step(head: ir.Block) -> int | None:
    """How far the counter of a loop goes in a step, where that is a constant."""
    phi = head.instructions[0]
    for value, _ in phi.incomings:
        if getattr(value, "opname", "") == "add" and value.operands[0] is phi:
            step = value.operands[1]
            return step.constant if isinstance(step, ir.Constant) else None
    return None


def _plain(head: ir.Block, blocks: set[ir.Block], into_head: Sequence[ir.Block], interleaved: int) -> InnermostLoop:
    outside = [b for b in into_head if b not in blocks]
    if len(into_head) != 2 or len(head.instructions) != 3 or len(outside) != 1:
        raise NotPlain
    if not isinstance(outside[0].instructions[-1], kinds.Branch):
        raise NotPlain
    (latch,) = [b for b in into_head if b in blocks]
    phi, test, leave = head.instructions
    counted = latch.instructions[-2]
    if not isinstance(test, kinds.ICMPInstr) or test.op != "slt" or test.operands[0] is not phi:
        raise NotPlain
    if leave.operands[0] is not test or (counted, latch) not in phi.incomings:
        raise NotPlain
    step = _step(head)
    if step is None or step < 1:
        raise NotPlain
    (begin,) = [value for value, block in phi.incomings if block is not latch]
    _, first, done = leave.operands
    if first not in blocks or isinstance(done.instructions[0], kinds.PhiInstr):
        raise NotPlain
    body = ordered(first, blocks - {head})
    return InnermostLoop(outside[0], head, body, done, phi, begin, test.operands[1], step, interleaved)
