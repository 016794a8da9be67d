"""The functions of a nest's kernel: each a phase, whose items threads share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from llvmlite import ir

from xloom.codegen.buffer_values import BufferValue, leaf_shapes
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nest import LoopNest, Store
from xloom.cpu.kernel_modules.kernel import TASK, Phase
from xloom.cpu.loops.emission import Elements
from xloom.hlo.dtype import DType, bf16, f16, f32
from xloom.llvm import element_access, types
from xloom.llvm.folding_builder import FoldingBuilder
from xloom.llvm.gathers import copy_gathers
from xloom.llvm.loop import AS_OFTEN, loop
from xloom.llvm.symbolic_dimension import SymbolicDimensions, greatest
from xloom.llvm.target_module import TargetModule
from xloom.llvm.types import I64, POINTER, VOID, i64

TASK_COST = 40_000
"""Additions that are worth a task of their own."""


class Phases:
    """Makes functions in `module`; `made` are those so far."""

    def __init__(
        self,
        module: TargetModule,
        name: str,
        nest: LoopNest,
        numbers: Mapping[BufferValue, int],
        types_of: Callable[[BufferValue], DType],
        *,
        seldom: bool = False,
        serial: bool = False,
        sizes: Mapping[BufferValue, int] | None = None,
        table: SymbolicDimensions | None = None,
    ):
        self.module = module
        self.name = name
        self.nest = nest
        self.numbers = numbers
        self.types_of = types_of
        self.seldom = seldom
        """They do little, and that once in a run of the program: less code is worth more than less time."""
        self.serial = serial
        """A single result is not made in pieces for several threads: in most runs, little is to be done for it."""
        self._sizes, self._table = sizes, table
        self.made: list[Phase] = []
        self.scratch: list[int] = []
        """Bytes of memory that phases hand to later ones."""
        self.pointers: dict[BufferValue, ir.Value] = {}
        """Of the arrays, in the function that is being made."""
        self._displaced: dict[BufferValue, Var] = {}
        self._arguments: Sequence[ir.Value] = ()
        stores = [s for stage in nest.stages for s in stage.stores]
        self._stored = {id(s.node) for s in stores if not self.is_wider(s.target)}
        self._pointer_count = max(numbers.values(), default=-1) + 1

    def add_scratch(self, nbytes: int) -> int:
        """Reserves memory for all later phases; returns its number."""
        self.scratch.append(nbytes)
        return len(self.scratch) - 1

    def scratch_pointer(self, number: int) -> ir.Value:
        """The pointer to a piece of scratch memory, in the function that is being made."""
        return self._arguments[self._pointer_count + number]

    @contextmanager
    def phase(self, outer: Sequence[Var], cost: int, *, open_ended: bool = False, block: int = 1) -> Iterator[Elements]:
        """A phase over the items that the loops `outer` make; yields where one item is emitted: `block` iterations.

        The work is in a function of its own whose pointers are known to be distinct. With `open_ended`, the loop over
        the items is left to the caller, from `elements.bounds`.
        """
        symbol = f"{self.name}.{len(self.made)}"
        count = math.prod(v.size for v in outer)
        total = self._pointer_count + len(self.scratch)
        pointers = [POINTER] * (total + (self._table is not None))
        body = ir.Function(self.module, ir.FunctionType(VOID, [*pointers, I64, I64]), f"{symbol}.body")
        body.linkage = "internal"
        body.attributes.add("alwaysinline")
        body.attributes.add("nounwind")
        *arrays, begin, end = body.args
        for argument in arrays:
            argument.add_attribute("noalias")
        b = FoldingBuilder(body.append_basic_block("entry"))
        start = body.append_basic_block("start")
        b.position_at_end(start)
        self.pointers = {value: body.args[n] for value, n in self.numbers.items()}
        self._arguments = body.args
        if self._table is not None:
            self._table.read_from(b, arrays[-1])
        elements = Elements(b, lambda value: self.pointers[value], self.address, self.is_wider, self._stored)
        with ExitStack() as stack:
            elements.bounds = begin, end
            if open_ended:
                pass
            elif outer:
                name = outer[0].name if len(outer) == 1 else "item"
                item = stack.enter_context(loop(b, begin, end, name=name, hints=AS_OFTEN))
                elements.vars.update(counters(b, outer, item))
            yield elements
        if elements.ends_with_fence:
            b.fence("seq_cst")
        b.ret_void()
        b.position_at_end(body.entry_basic_block)
        b.branch(start)
        self._wrapper(symbol, body, total)
        grain = greatest(1, TASK_COST // greatest(cost, 1))
        self.made.append(Phase(symbol, greatest(count, 0) if outer else 1, grain, tuple(v.name for v in outer), block))

    def _wrapper(self, symbol: str, body: ir.Function, total: int) -> None:
        function = ir.Function(self.module, TASK, symbol)
        function.attributes.add("nounwind")
        copy_gathers(body, function)
        b = ir.IRBuilder(function.append_basic_block("entry"))
        buffers, begin, end = function.args
        numbers = [*range(total), *([-1] if self._table is not None else [])]
        pointers = [b.load(b.gep(buffers, [I64(k)], inbounds=True, source_etype=POINTER), typ=POINTER) for k in numbers]
        b.call(body, [*pointers, begin, end])
        b.ret_void()

    @contextmanager
    def moved(self, arrays: Mapping[BufferValue, tuple[ir.Value, Var]]) -> Iterator[None]:
        """Meanwhile arrays are at other pointers, and addresses in them so many elements higher."""
        kept, displaced = {value: self.pointers[value] for value in arrays}, self._displaced
        self.pointers.update({value: pointer for value, (pointer, _) in arrays.items()})
        self._displaced = {**displaced, **{value: var for value, (_, var) in arrays.items()}}
        try:
            yield
        finally:
            self.pointers.update(kept)
            self._displaced = displaced

    # -- what they do with arrays
    def nbytes(self, value: BufferValue) -> int:
        """Bytes of an array."""
        instruction, leaf = value
        shape = leaf_shapes(instruction.shape)[leaf]
        return shape.nbytes if self._sizes is None else self._sizes[value] * shape.dtype.bytes

    def is_wider(self, value: BufferValue) -> bool:
        """True of arrays of narrow floats that are in memory of one iteration, with all digits of f32."""
        return value in self.nest.private and self.types_of(value) in (bf16, f16)

    def kept_type(self, value: BufferValue) -> DType:
        """The type of an array's elements in memory."""
        return f32 if self.is_wider(value) else self.types_of(value)

    def stores(self, elements: Elements, stores: Sequence[Store]) -> None:
        """Computes and stores one element of each."""
        values = [elements.wider(s.node) if self.is_wider(s.target) else elements.to_store(s.node) for s in stores]
        for store, value in zip(stores, values, strict=True):
            self.store(elements, store, value)

    def store(self, elements: Elements, store: Store, value: types.Value) -> None:
        """Stores `value` as the element that `store` says."""
        pointer, dtype = self.pointers[store.target], self.kept_type(store.target)
        index = elements.index(self.address(store.target, store.address))
        element_access.store(elements.b, pointer, dtype, index, value, exact=True)

    def address(self, value: BufferValue, address: Affine) -> Affine:
        """The address that an iteration of the outer loops has an element of an array at."""
        if value in self._displaced:
            address += Affine(0, ((self._displaced[value], 1),))
        return self.inside(address) if value in self.nest.private else address

    def inside(self, address: Affine) -> Affine:
        """The part of an address that an iteration of the outer loops sees."""
        return Affine(address.const, tuple(t for t in address.terms if t[0] not in self.nest.outer))


def counters(b: ir.IRBuilder, loops: Sequence[Var], item: ir.Value) -> dict[Var, ir.Value]:
    """Where each of the loops is at one of the items that they make."""
    found: dict[Var, ir.Value] = {}
    for var in reversed(loops[1:]):
        found[var] = b.urem(item, i64(var.size))
        item = b.udiv(item, i64(var.size))
    found[loops[0]] = item
    return found
