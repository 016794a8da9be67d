"""The kernel of a loop nest while it is made: its arrays, and the elements that a thread computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from llvmlite import ir

from xloom.codegen.buffer_values import BufferValue, dtype_of
from xloom.codegen.emission.elements import ElementEmitter
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nest import LoopNest, Store
from xloom.cuda.kernel import KernelBuilder
from xloom.hlo.dtype import DType, bf16, f16, f32
from xloom.llvm import element_access
from xloom.llvm.types import I32, I64, Value

SMALL_INDEX = 1 << 31
"""Numbers of items below it are divided in 32 bits."""


class NestCode:
    """Emits elements of a nest into a kernel; `numbers` are those of its pointers."""

    def __init__(self, kernel: KernelBuilder, nest: LoopNest, numbers: Mapping[BufferValue, int]):
        self.kernel, self.nest = kernel, nest
        self.pointers: dict[BufferValue, ir.Value] = {v: kernel.pointers[n] for v, n in numbers.items()}
        stored = {id(s.node) for stage in nest.stages for s in stage.stores if not self.is_wider(s.target)}
        self.elements = ElementEmitter(kernel.b, self.pointers.__getitem__, self.address, self.is_wider, stored)

    def is_wider(self, value: BufferValue) -> bool:
        """True of arrays of narrow floats that only live within a row, with all digits of f32."""
        return value in self.nest.private and dtype_of(value) in (bf16, f16)

    def kept_type(self, value: BufferValue) -> DType:
        """The type of an array's elements in memory."""
        return f32 if self.is_wider(value) else dtype_of(value)

    def address(self, value: BufferValue, address: Affine) -> Affine:
        """The address of an element: in an array that lives within a row, without the loops around."""
        if value not in self.nest.private:
            return address
        return Affine(address.const, tuple(t for t in address.terms if t[0] not in self.nest.outer))

    def values(self, stores: Sequence[Store]) -> list[Value]:
        """What one iteration stores."""
        elements = self.elements
        return [elements.wider(s.node) if self.is_wider(s.target) else elements.to_store(s.node) for s in stores]

    def store(self, store: Store, value: Value) -> None:
        """Stores a value as the element that `store` says."""
        index = self.elements.index(self.address(store.target, store.address))
        dtype = self.kept_type(store.target)
        element_access.store(self.kernel.b, self.pointers[store.target], dtype, index, value, exact=True)

    @contextmanager
    def at(self, loops: Sequence[Var], item: ir.Value, total: int) -> Iterator[None]:
        """A scope in which loops are where item number `item` of their `total` iterations is."""
        with self.elements.scope():
            self.elements.vars.update(counters(self.kernel.b, loops, item, total))
            yield


def counters(b: ir.IRBuilder, loops: Sequence[Var], item: ir.Value, total: int) -> dict[Var, ir.Value]:
    """Where each of the loops is at an item (i64) of the `total` that they make."""
    if not loops:
        return {}
    small = total < SMALL_INDEX and len(loops) > 1
    kind = I32 if small else I64
    rest = b.trunc(item, I32) if small else item
    found: dict[Var, ir.Value] = {}
    for var in reversed(loops[1:]):
        found[var] = b.urem(rest, kind(var.size))
        rest = b.udiv(rest, kind(var.size))
    found[loops[0]] = rest
    return {var: b.zext(value, I64) for var, value in found.items()} if small else found
