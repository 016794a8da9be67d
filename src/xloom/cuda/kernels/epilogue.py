"""What is done to each sum of a product where a thread has it in registers: what loops that read it would do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from xloom.codegen.buffer_values import BufferValue, dtype_of
from xloom.codegen.elemental.loop_nests import nest_for
from xloom.codegen.loop_ir.nest import LoopNest, arranged, loaded_values
from xloom.cuda.kernel import KernelBuilder
from xloom.cuda.kernels.product import Place, Product
from xloom.cuda.loops.nest_code import NestCode
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.llvm.scalar.conversion import converted
from xloom.llvm.types import Value


class Epilogue:
    """The elementwise expression of `root`, of the elements of `made` and of arrays; `inlined` is what is between."""

    def __init__(self, root: Instruction, made: Instruction, inlined: Collection[Instruction]):
        self.root, self.sums = root, (made, 0)
        self.all = {made, *inlined}
        """What the root is computed of, down to arrays."""
        nest = nest_for([[root]], inlined)
        # sums have all digits that they were added up with
        self.nest = LoopNest(nest.outer, nest.stages, {self.sums})
        self.arrays: list[BufferValue] = [value for value in loaded_values(nest) if value != self.sums]

    @property
    def dtype(self) -> DType:
        """The type of what it gives."""
        return self.root.shape.dtype

    def code(self, kernel: KernelBuilder, numbers: Mapping[BufferValue, int], product: Product) -> EpilogueCode:
        """Its code in a kernel whose pointers have these numbers."""
        return EpilogueCode(NestCode(kernel, self.nest, numbers), product, self.sums)


class EpilogueCode:
    """Emits the expression for elements of a product's output, of which it is given where they are."""

    def __init__(self, code: NestCode, product: Product, sums: BufferValue):
        self._code, self._product = code, product
        (stage,) = code.nest.stages
        (self._store,) = stage.stores
        loops, gone = arranged(stage, stage.vars)
        code.elements.unbind(gone)
        self._loops = [(loop, self._store.address.factor(loop)) for loop in loops]
        self._given = [load for load in stage.loads if load.source == sums]
        self._dtype = dtype_of(sums)

    def to_store(self, place: Place, value: Value, kept: DType) -> Value:
        """What the element at a place becomes, to be stored; `value` is its sum, of type `kept`."""
        (result,) = self._emitted(place, value, kept, wider=False)
        return result

    def wider(self, place: Place, value: Value, kept: DType) -> Value:
        """The same with all digits that it is computed with."""
        (result,) = self._emitted(place, value, kept, wider=True)
        return result

    def _emitted(self, place: Place, value: Value, kept: DType, *, wider: bool) -> list[Value]:
        elements, b = self._code.elements, self._code.kernel.b
        exact = converted(b, value, kept, self._dtype)
        known: dict[Any, Value] = {id(load): exact for load in self._given}
        if self._code.is_wider(self._given[0].source):
            known.update({(id(load), "wider"): value for load in self._given})
        with elements.known(known):
            for loop, stride in self._loops:
                elements.vars[loop] = self._product.along(b, place, loop.size, stride)
            return [elements.wider(self._store.node)] if wider else self._code.values([self._store])
