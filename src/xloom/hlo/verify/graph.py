"""Checks of a module as a graph: operands and users, parents, roots, names, and cycles."""

from __future__ import annotations

from collections.abc import Iterator

from xloom.errors import VerifyError
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module


def instruction_error(instruction: Instruction, message: str, hint: str = "") -> VerifyError:
    """The error of one instruction, with its source line."""
    place = f"%{instruction.name}"
    if instruction.metadata.location:
        place += f", {instruction.metadata.location}"
    return VerifyError(f"{instruction.opcode}: {message}", where=place, hint=hint)


def graph_problems(module: Module, computation: Computation, names: dict[str, str]) -> Iterator[VerifyError]:
    """Errors of a computation as a graph; `names` are those that computations before it have."""
    where = f"computation {computation.name}"
    if computation.module is not module:
        yield VerifyError("the computation belongs to another module", where=where)
    if not len(computation):
        yield VerifyError("the computation is empty", where=where)
        return
    if computation.root not in computation:
        yield VerifyError(f"the root {computation.root.name} is not in the computation", where=where)
    numbers = sorted(p.attrs.get("parameter_number", -1) for p in computation if p.opcode == "parameter")
    if numbers != list(range(len(numbers))):
        yield VerifyError(f"parameters are numbered {numbers}, not 0 to {len(numbers) - 1}", where=where)
    for instruction in computation:
        if instruction.parent is not computation:
            yield instruction_error(instruction, "its parent is another computation")
        if instruction.name in names:
            yield instruction_error(instruction, f"its name is used twice, also in {names[instruction.name]}")
        names[instruction.name] = computation.name
        counts: dict[Instruction, int] = {}
        for operand in instruction._operands:
            counts[operand] = counts.get(operand, 0) + 1
        for operand, count in counts.items():
            if operand not in computation:
                yield instruction_error(instruction, f"operand {operand.name} is not in the computation")
            elif operand._users.get(instruction, 0) != count:
                yield instruction_error(instruction, f"it is not rightly among the users of {operand.name}")
        for user in instruction._users:
            if user.parent is not None and user not in computation:
                yield instruction_error(instruction, f"user {user.name} is not in the computation")
        for before in instruction._predecessors or ():
            if before not in computation:
                yield instruction_error(instruction, f"control predecessor {before.name} is not in the computation")
    if _cyclic(computation):
        yield VerifyError("instructions depend on each other in a cycle", where=where)


def _cyclic(computation: Computation) -> bool:
    """Kahn's algorithm over operands and control predecessors."""
    waiting = {i: len(set(i._operands)) + len(i._predecessors or ()) for i in computation}
    ready = [i for i, count in waiting.items() if count == 0]
    done = 0
    while ready:
        instruction = ready.pop()
        done += 1
        for after in (*instruction._users, *(instruction._successors or ())):
            if after in waiting:
                waiting[after] -= 1
                if waiting[after] == 0:
                    ready.append(after)
    return done != len(waiting)


def has_cyclic_calls(module: Module) -> bool:
    """True when a computation calls itself, directly or not."""
    callees = {c: {k for i in c for k in i.called_computations} for c in module.computations}
    callers: dict[Computation, list[Computation]] = {}
    for computation, called in callees.items():
        for callee in called:
            callers.setdefault(callee, []).append(computation)
    waiting = {c: len(called) for c, called in callees.items()}
    ready = [c for c, count in waiting.items() if count == 0]
    done = 0
    while ready:
        done += 1
        for caller in callers.get(ready.pop(), ()):
            if caller in waiting:
                waiting[caller] -= 1
                if waiting[caller] == 0:
                    ready.append(caller)
    return done != len(waiting)
