"""Which arrays an address may lie in, and which of them can share memory."""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir
from llvmlite.ir import instructions as kinds


class Root(NamedTuple):
    """An array: an argument that no other overlaps, memory of the stack or of the module, or an entry of a table."""

    owner: int
    """The identity of what gives the address; of an entry, that of the table."""
    entry: int | None = None
    """Its number in a table of pointers that nothing in the function writes: neither to it, nor of its own."""

    def may_share(self, other: Root) -> bool:
        """True when the two can be the same memory: entries of tables only, whatever their numbers."""
        return self == other or (self.entry is not None and other.entry is not None)


def roots_of(pointer: Any) -> frozenset[Root] | None:
    """The arrays of which one has the address; None where that is not known."""
    while isinstance(pointer, kinds.GEPInstr):
        pointer = pointer.operands[0]
    if isinstance(pointer, kinds.SelectInstr):
        found = [roots_of(o) for o in pointer.operands[1:]]
        return None if None in found else frozenset().union(*found)  # type: ignore[arg-type]
    root = _root_of(pointer)
    return None if root is None else frozenset([root])


def _root_of(pointer: Any) -> Root | None:
    if isinstance(pointer, (kinds.AllocaInstr, ir.GlobalVariable)):
        return Root(id(pointer))
    if isinstance(pointer, ir.Argument) and "noalias" in pointer.attributes:
        return Root(id(pointer))
    if isinstance(pointer, kinds.LoadInstr) and "invariant.load" in pointer.metadata:
        return _entry_of(pointer.operands[0])
    return None


def _entry_of(address: Any) -> Root | None:
    if isinstance(address, ir.Argument):
        return Root(id(address), 0)
    if not isinstance(address, kinds.GEPInstr) or not isinstance(address.operands[0], ir.Argument):
        return None
    index = address.operands[1]
    return Root(id(address.operands[0]), index.constant) if isinstance(index, ir.Constant) else None
