"""How the values of an innermost loop change from iteration to iteration, and what memory it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as kinds

from xloom.llvm.vectorizer.address_distance import distance
from xloom.llvm.vectorizer.innermost_loops import InnermostLoop
from xloom.llvm.vectorizer.loads_apart import is_picked
from xloom.llvm.vectorizer.memory_roots import Root, roots_of
from xloom.llvm.vectorizer.not_plain import NotPlain
from xloom.llvm.vectorizer.stack_variables import Variables, variables_of
from xloom.llvm.vectorizer.store_pairs import store_pairs
from xloom.llvm.vectorizer.widening import Work, arguments_of, bits_of, bytes_of, check_pure, intrinsic_name, work_of

MOST_BYTES = 256
"""Those of a vector in LLVM IR that is several in registers, at most: it does them side by side."""
_OF_INDICES = frozenset(("add", "sub", "mul", "shl", "sext", "zext", "smin", "smax", "umin", "umax"))
"""What indices are computed by."""


@dataclass(eq=False)
class LoopFacts:
    """What is known of a loop whose iterations can be done side by side."""

    loop: InnermostLoop
    variables: Variables
    strides: dict[int, int | None] = field(default_factory=dict)
    """By identity: how much a value grows from iteration to iteration (of addresses, in bytes); None says anyhow."""
    bits: int = 8
    """Those of the widest elements."""
    cost: int = 0
    """How many instructions there are of vectors."""
    pairs: dict[int, Any] = field(default_factory=dict)
    """By identity of the later one of two stores side by side, the earlier one."""
    reads_written: bool = False
    """True when an array is read that is written too: no iteration can be done twice."""

    def stride(self, value: ir.Value) -> int | None:
        """How a value changes; what is made outside the loop does not."""
        return self.strides.get(id(value), 0)

    def apart(self, load: Any) -> int:
        """How many elements there are from one that is loaded to the next."""
        return (self.stride(load.operands[0]) or 0) // bytes_of(load.type)

    def is_of_pair(self, store: Any) -> bool:
        """True of a store that leaves room for another element, of the same iteration."""
        return self.stride(store.operands[1]) != bytes_of(store.operands[0].type)

    @property
    def has_gathers(self) -> bool:
        """True where elements are loaded that lie anywhere."""
        return any(isinstance(i, kinds.GEPInstr) and self.stride(i) is None for i in self.loop.instructions)

    @property
    def only_moves(self) -> bool:
        """True of a loop that copies elements or makes them 0, which LLVM has done by the C library."""
        if self.pairs or self.loop.conditions:
            return False
        stores = [i for i in self.loop.instructions if isinstance(i, kinds.StoreInstr)]
        values = [i.operands[0] for i in stores]
        copies = all(isinstance(v, kinds.LoadInstr) and self.stride(v) is None and self.apart(v) == 1 for v in values)
        zeros = all(isinstance(v, ir.Constant) and not v.constant for v in values)
        return (self.cost == 2 * len(stores) and copies) or (self.cost == len(stores) and zeros)

    def seen(self, value: ir.Value) -> ir.Value:
        """What a value is, but for having been on the stack."""
        return self.variables.values.get(id(value), value)


def facts_of(loop: InnermostLoop) -> LoopFacts:
    """What is known of a loop. Raises NotPlain where its iterations must stay as they are."""
    facts = LoopFacts(loop, variables_of(loop))
    facts.strides[id(loop.variable)] = loop.step
    indices = _indices(loop)
    for i in loop.instructions:
        facts.strides[id(i)] = stride = _stride(facts, i)
        if stride is None and i is facts.seen(i):
            work = _work(i)
            facts.cost += work.cost
            if id(i) not in indices:
                facts.bits = max(facts.bits, work.bits)
    stores = [i for i in loop.instructions if isinstance(i, kinds.StoreInstr) and id(i) not in facts.variables.stores]
    for block in loop.body:
        facts.pairs |= store_pairs([i for i in stores if i.parent is block and facts.is_of_pair(i)])
    if any(facts.stride(condition) != 0 for condition in loop.conditions):
        raise NotPlain
    _check_memory(facts, stores)
    return facts


def _indices(loop: InnermostLoop) -> set[int]:
    """By identity: what only goes into addresses, where processors take narrower numbers than LLVM IR writes."""
    others: set[int] = set()
    found: set[int] = set()
    for i in reversed(loop.instructions):
        name = intrinsic_name(i.callee)[0] if isinstance(i, kinds.CallInstr) else i.opname
        if isinstance(i, kinds.GEPInstr):
            continue
        if name in _OF_INDICES and id(i) not in others:
            found.add(id(i))
        else:
            others.update(id(o) for o in arguments_of(i))
    return found


def _work(i: Any) -> Work:
    if isinstance(i, kinds.LoadInstr):
        return Work(1, bits_of(i.type))
    if isinstance(i, kinds.StoreInstr):
        return Work(1, bits_of(i.operands[0].type))
    return work_of(i)


def _stride(facts: LoopFacts, i: Any) -> int | None:
    variables = facts.variables
    if id(i) in variables.values:
        return facts.stride(variables.values[id(i)])
    if id(i) in variables.carried:
        return None
    if id(i) in variables.stores:
        return 0
    if isinstance(i, kinds.StoreInstr):
        value, pointer = i.operands
        if facts.stride(pointer) not in (bytes_of(value.type), 2 * bytes_of(value.type)):
            raise NotPlain
        return None
    if isinstance(i, kinds.LoadInstr):
        stride = facts.stride(i.operands[0])
        if stride is None:
            return None
        if not (stride in (0, bytes_of(i.type), -bytes_of(i.type)) or is_picked(i.type, stride)):
            raise NotPlain
        return None if stride or not facts.loop.is_certain(i) else 0  # not before the loop if it may never be
    if isinstance(i, kinds.PhiInstr):
        if any(facts.stride(value) for value, _ in i.incomings):
            raise NotPlain
        return None
    strides = [facts.stride(o) for o in arguments_of(i)]
    if isinstance(i, kinds.GEPInstr):
        return _address_stride(i, strides)
    steady = isinstance(i.type, ir.IntType) and None not in strides and any(strides)
    # where steps cancel each other, what stays is still made of what changes, and so not before the loop
    if steady and (linear := _linear(i, strides)):
        return linear
    if isinstance(i, kinds.CallInstr) and isinstance(i.type, ir.VoidType):
        raise NotPlain
    check_pure(i)
    return 0 if all(s == 0 for s in strides) else None


def _address_stride(i: Any, strides: Sequence[int | None]) -> int | None:
    """How an address changes; an element that lies anywhere is one of an array that stays where it is."""
    if not any(stride != 0 for stride in strides):
        return 0
    pointer, *indices = strides
    if len(indices) != 1 or pointer is None:
        raise NotPlain
    (index,) = indices
    if index is None:
        if pointer:
            raise NotPlain
        return None
    grows = pointer + index * bytes_of(i.source_etype)
    if not grows:
        raise NotPlain
    return grows


def _linear(i: Any, strides: list[Any]) -> int | None:
    if i.opname in ("add", "sub"):
        return strides[0] + strides[1] if i.opname == "add" else strides[0] - strides[1]
    if i.opname == "trunc":
        return strides[0]
    if i.opname == "select":
        return strides[1] if not strides[0] and strides[1] == strides[2] else None
    first, second = (
        (o.constant if isinstance(o, ir.Constant) else None for o in i.operands[:2])
        if len(i.operands) > 1
        else (None, None)
    )
    if i.opname == "mul" and isinstance(first, int):
        return first * strides[1]
    if i.opname == "mul" and isinstance(second, int):
        return strides[0] * second
    if i.opname == "shl" and isinstance(second, int):
        return strides[0] << second
    return None


# -- memory: what is written to an array is at the place of what else is read or written of it, or out of its way
def _check_memory(facts: LoopFacts, stores: Sequence[Any]) -> None:
    stored: list[tuple[Root, Any]] = []
    for store in stores:
        roots = roots_of(store.operands[1])
        if roots is None or len(roots) > 1:
            raise NotPlain
        (root,) = roots
        partner = facts.pairs.get(id(store))
        for other, before in stored:
            if root == other and before is not partner and not _keep_order(facts, before, store.operands[1]):
                raise NotPlain
        stored.append((root, store))
    loads = facts.variables.loads
    for i in facts.loop.instructions if stored else ():
        if not isinstance(i, kinds.LoadInstr) or id(i) in loads:
            continue
        roots = roots_of(i.operands[0])
        if roots is None:
            raise NotPlain
        for root, store in stored:
            if roots == {root}:
                facts.reads_written = True
                if not _keep_order(facts, store, i.operands[0]) and not _is_read_before(facts, store, i):
                    raise NotPlain
            elif any(root.may_share(r) for r in roots):
                raise NotPlain


def _keep_order(facts: LoopFacts, store: Any, other: ir.Value) -> bool:
    """True when what a store and another address reach is reached in the same order by vectors of iterations."""
    pointer, nbytes = store.operands[1], bytes_of(store.operands[0].type)
    stride = facts.stride(pointer)
    apart = distance(pointer, other)
    if stride is None or stride != facts.stride(other) or apart is None:
        return False
    return (apart == 0 and stride == nbytes) or abs(apart) >= MOST_BYTES * stride // nbytes


def _is_read_before(facts: LoopFacts, store: Any, load: Any) -> bool:
    """True when a store of a pair writes what only this iteration has read, before the pair is stored."""
    pointer, stride = load.operands[0], facts.stride(load.operands[0])
    apart = distance(store.operands[1], pointer)
    if not facts.is_of_pair(store) or stride != facts.stride(store.operands[1]) or apart is None or not stride:
        return False
    earlier = facts.pairs.get(id(store), store)
    order = facts.loop.instructions
    return abs(apart) < stride and order.index(load) < order.index(earlier)
