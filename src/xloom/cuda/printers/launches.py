"""The steps of a program: which kernels run on which grids, and what they read and write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cuda.lower import lowered
from xloom.cuda.program import Call, Collective, Copy, CountedLoop, DeviceProgram, Launch, Loop, Step
from xloom.hlo.module import Module
from xloom.llvm.target import Target


def launches_text(module: Module, target: Target) -> str:
    """The steps in order. Raises LoweringError for what has no kernels."""
    program = lowered(module, target)
    head = f"ENTRY %{module.entry.name}  {target.name}  arena {program.arena_bytes} B, {len(program.kernels)} kernels\n"
    return head + "".join(f"{line}\n" for line in _lines(program, program.steps, "  "))


def _lines(program: DeviceProgram, steps: Sequence[Step], indent: str) -> Iterator[str]:
    numbers = {kernel: number for number, kernel in enumerate(program.kernels)}
    for step in steps:
        if isinstance(step, Launch):
            kernel = step.kernel
            nbytes = kernel.shared_bytes + kernel.dynamic_shared_bytes
            shared = f", {nbytes} B shared" if nbytes else ""
            grid = f"{step.blocks} x {kernel.threads} threads"
            yield f"{indent}launch kernel {numbers[kernel]} on {grid}{shared}: {step.makes}"
            yield f"{indent}  {kernel.strategy}"
            yield f"{indent}  on {', '.join(map(_place, step.arguments))}"
        elif isinstance(step, Copy):
            yield f"{indent}copy {step.source.nbytes} B from {_place(step.source)} to {_place(step.target)}"
        elif isinstance(step, Loop):
            yield f"{indent}while {_place(step.predicate)}, which comes of"
            yield from _lines(program, step.condition, f"{indent}  ")
            yield f"{indent}do"
            yield from _lines(program, step.body, f"{indent}  ")
        elif isinstance(step, CountedLoop):
            yield f"{indent}do {step.trips} times"
            yield from _lines(program, step.body, f"{indent}  ")
        elif isinstance(step, Collective):
            operands, results = (", ".join(map(_place, part)) for part in (step.operands, step.results))
            yield f"{indent}{step.instruction.opcode} of {operands}, to {results}: {step.makes}"
        elif isinstance(step, Call):
            operands, results = (
                ", ".join("a token" if each is None else _place(each) for each in part)
                for part in (step.operands, step.results)
            )
            who = " by the host, which waits," if step.is_by_host else ""
            yield f"{indent}call {step.registration.name}{who} on {operands or 'nothing'}, to {results}"
        else:
            for number, branch in enumerate(step.branches):
                yield f"{indent}branch {number} by {_place(step.chooser)}"
                yield from _lines(program, branch, f"{indent}  ")


def _place(allocation: BufferAllocation) -> str:
    if allocation.colocated_with is not None:
        return f"{_place(allocation.colocated_with)} from byte {allocation.offset}"
    if allocation.kind in ("arena", "stack"):
        return f"arena from byte {allocation.offset}"
    return allocation.kind if allocation.kind in ("code", "unused") else f"{allocation.kind} {allocation.number}"
