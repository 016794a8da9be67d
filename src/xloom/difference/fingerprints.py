"""What instructions that compute the same have in common: a hash of all that they depend on, apart from names."""

from __future__ import annotations

import hashlib
from typing import Any

from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal
from xloom.hlo.opcodes import Use

_OF_NAMES = frozenset(("origin", "original_value"))
_SMALL = 1 << 16
"""Bytes of a literal that are hashed whole."""


class Fingerprints:
    """Hashes of a module's instructions and computations."""

    def __init__(self) -> None:
        self._instructions: dict[Instruction, bytes] = {}
        self._computations: dict[Computation, bytes] = {}

    def of_computation(self, computation: Computation) -> bytes:
        """What it computes; callees are hashed before."""
        stack = [computation]
        while stack:
            current = stack[-1]
            inner = [c for i in current for c in i.called_computations if c not in self._computations]
            if inner:
                stack += inner
                continue
            stack.pop()
            if current not in self._computations:
                for instruction in current.post_order():
                    self._instructions[instruction] = self._hash(instruction)
                self._computations[current] = self._instructions[current.root]
        return self._computations[computation]

    def of(self, instruction: Instruction) -> bytes:
        """What an instruction computes, of parameters."""
        if instruction not in self._instructions:
            assert instruction.parent is not None
            self.of_computation(instruction.parent)
        return self._instructions[instruction]

    def _hash(self, instruction: Instruction) -> bytes:
        digest = hashlib.blake2b(digest_size=16)
        digest.update(f"{instruction.opcode} {instruction.shape}".encode())
        for name, value in sorted(says(instruction).items()):
            digest.update(f" {name}=".encode())
            digest.update(value if isinstance(value, bytes) else repr(value).encode())
        for operand in instruction.operands:
            digest.update(self._instructions[operand])
        for computation in instruction.called_computations:
            digest.update(self._computations[computation])
        return digest.digest()


def says(instruction: Instruction) -> dict[str, Any]:
    """What an instruction says apart from opcode, shape, operands, callees, names and where it comes from."""
    called = instruction.op.computations
    known = instruction.op.attributes
    found = {
        name: _plain(value)
        for name, value in instruction.attrs.items()
        if name not in called and name not in _OF_NAMES and not _is_default(value, known.get(name))
    }
    if instruction.backend_config:
        found["backend_config"] = instruction.backend_config
    if instruction.frontend_attributes:
        found["frontend_attributes"] = sorted(instruction.frontend_attributes.items())
    if instruction.sharding is not None:
        found["sharding"] = str(instruction.sharding)
    return found


def _is_default(value: Any, use: Use | None) -> bool:
    if isinstance(value, Literal) or use is None or use.required:
        return False
    return value == use.info.default or value == ()


def _plain(value: Any) -> Any:
    if not isinstance(value, Literal):
        return value
    if value.shape.is_array and value.array is not None:
        data = value.array.tobytes()
        return data if len(data) <= _SMALL else hashlib.blake2b(data, digest_size=16).digest()
    return value.to_text(shapes=True)
