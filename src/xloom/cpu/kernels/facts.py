"""What planning asks of the kernels of this backend; of their files no more is imported than a program needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xloom.codegen.kernel_facts import leaves_unread, overwrites
from xloom.hlo.instruction import Instruction
from xloom.llvm.target import Target


@leaves_unread("sort")
def _numbers(instruction: Instruction) -> Collection[int]:
    from xloom.cpu.kernels.sort.sort import unread_operands

    return unread_operands(instruction)


@overwrites("sort")
def _sorted(instruction: Instruction, leaf: int, target: Target) -> Sequence[int]:
    from xloom.cpu.kernels.sort.sort import overwritten_operand

    operand = overwritten_operand(instruction, leaf, target)
    return () if operand is None else (operand,)


@overwrites("scatter")
def _scattered(instruction: Instruction, leaf: int, target: Target) -> Sequence[int]:
    return (leaf,)


@overwrites("fusion")
def _fused(instruction: Instruction, leaf: int, target: Target) -> Sequence[int]:
    root = instruction["calls"].root
    if root.opcode != "scatter":
        return ()
    changed = root.operands[0]
    # what updates are computed of is to be as it was before them
    return (leaf,) if list(changed.users) == [root] and root.operands.count(changed) == 1 else ()


@overwrites("fft")
def _transformed(instruction: Instruction, leaf: int, target: Target) -> Sequence[int]:
    from xloom.cpu.kernels.fft.fft import transforms_in_place

    return (leaf,) if transforms_in_place(instruction, target) else ()


@overwrites("triangular-solve")
def _solved(instruction: Instruction, leaf: int, target: Target) -> Sequence[int]:
    from xloom.cpu.kernels.linalg.triangular_solve import solves_in_place

    return (1,) if solves_in_place(instruction, target) else ()
