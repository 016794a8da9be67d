"""Asynchronous pairs as the plain operators that they stand for."""

from __future__ import annotations

from xloom.hlo.async_chain import async_computation
from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.base import Pass, instructions_of, pin_roots, register
from xloom.passes.computation_inlining import inline

_PAIRS = {
    "copy-done": "copy",
    "all-gather-done": "all-gather",
    "all-reduce-done": "all-reduce",
    "collective-permute-done": "collective-permute",
}


@register
class AsyncSimplification(Pass):
    """Runs at its start what an asynchronous pair begins: async-start/update/done are inlined, copies and collectives
    lose their pairs. For targets that overlap nothing.

    A pair stays where something else looks at its start.
    """

    name = "async-simplification"
    opcodes = ("async-done", *_PAIRS)

    def run(self, module: Module) -> bool:
        """See the class."""
        pin_roots(module)
        changed = False
        for computation in callees_first(module.computations):
            for instruction in instructions_of(computation, ("async-done", *_PAIRS)):
                changed |= _join(instruction)
        return changed


def _join(done: Instruction) -> bool:
    chain = _chain(done)
    body = async_computation(done)
    if any(len(i.users) != 1 for i in chain[:-1]) or (done.opcode == "async-done" and body is None):
        return False
    operands = [o for k, i in enumerate(chain) for o in i.operands[1 if k else 0 :]]
    # operands that an update adds are not known earlier
    point = next((i for i in reversed(chain) if len(i.operands) > 1), chain[0])
    host = done.parent
    assert host is not None
    new = host.add(_plain(chain[0], done, operands, body))
    _order(chain, point, new)
    done.replace_all_uses_with(new)
    for instruction in reversed(chain):
        host.remove(instruction)
    if body is not None and new.opcode == "call":
        _move_to_thread(body, host)
        inline(new, body)
    return True


def _chain(done: Instruction) -> list[Instruction]:
    chain = [done]
    while not chain[0].opcode.endswith("-start"):
        chain.insert(0, chain[0].operands[0])
    return chain


def _plain(start: Instruction, done: Instruction, operands: list[Instruction], body: Computation | None) -> Instruction:
    opcode = _PAIRS.get(done.opcode, "call")
    attrs = {"to_apply": body} if opcode == "call" else {k: v for k, v in start.attrs.items() if k not in _START_ONLY}
    new = Instruction(done.name, opcode, done.shape, operands, attrs)
    new.copy_annotations(start)
    new.sharding = done.sharding
    return new


_START_ONLY = frozenset({"cross_program_prefetch_index", "origin"})


def _order(chain: list[Instruction], point: Instruction, new: Instruction) -> None:
    """Gives `new`, which runs at `point`, the control dependencies of the chain.

    What had to wait for a member of the chain waits for `new`, where that member was not before it, and for what
    had to run before the members up to it.
    """
    earlier: list[Instruction] = []
    for member in chain:
        before, after = member.control_predecessors, member.control_successors
        member.drop_control_dependencies()
        earlier += [i for i in before if i not in chain]
        if member is point:
            for i in earlier:
                new.add_control_predecessor(i)
            earlier = [new]
        for i in after:
            for j in earlier if i not in chain else ():
                i.add_control_predecessor(j)
    for user in chain[-1].users:
        for i in earlier:
            if i is not new:
                user.add_control_predecessor(i)


def _move_to_thread(body: Computation, host: Computation) -> None:
    for computation in callees_first([body]):
        computation.execution_thread = host.execution_thread
