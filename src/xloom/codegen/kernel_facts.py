"""What planning asks of kernels: which operands one does not read, and over which it may write.

Backends register the answers per opcode. Without an answer a kernel reads all its operands and writes over none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from xloom.hlo.instruction import Instruction
from xloom.llvm.target import Target

UnreadRule = Callable[[Instruction], Collection[int]]
OverwriteRule = Callable[[Instruction, int, Target], Sequence[int]]
_UNREAD: dict[str, UnreadRule] = {}
_OVERWRITTEN: dict[tuple[str, bool], OverwriteRule] = {}


def leaves_unread(opcode: str) -> Callable[[UnreadRule], UnreadRule]:
    """Registers `rule(instruction)`: the numbers of the operands that the kernel makes itself rather than reads."""

    def register(rule: UnreadRule) -> UnreadRule:
        _UNREAD[opcode] = rule
        return rule

    return register


def overwrites(*opcodes: str, gpu: bool = False) -> Callable[[OverwriteRule], OverwriteRule]:
    """Registers `rule(instruction, leaf, target)`: the numbers of the operands in whose memory that output may lie.

    It is of processors' kernels, or of those of GPUs.
    """

    def register(rule: OverwriteRule) -> OverwriteRule:
        for opcode in opcodes:
            _OVERWRITTEN[opcode, gpu] = rule
        return rule

    return register


def unread_operands(instruction: Instruction) -> Collection[int]:
    """The numbers of an instruction's operands that its kernel does not read."""
    rule = _UNREAD.get(instruction.opcode)
    return rule(instruction) if rule is not None else ()


def overwritten_operands(instruction: Instruction, leaf: int, target: Target) -> Sequence[int]:
    """The numbers of an instruction's operands in whose memory output `leaf` may lie, if nothing else reads them."""
    rule = _OVERWRITTEN.get((instruction.opcode, target.is_gpu))
    return rule(instruction, leaf, target) if rule is not None else ()
