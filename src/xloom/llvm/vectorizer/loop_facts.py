"""How the values of an innermost loop change from iteration to iteration, and what memory it needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as kinds

from xloom.llvm.vectorizer.innermost_loops import InnermostLoop
from xloom.llvm.vectorizer.loads_apart import is_picked
from xloom.llvm.vectorizer.not_plain import NotPlain
from xloom.llvm.vectorizer.stack_variables import Variables, variables_of
from xloom.llvm.vectorizer.widening import Work, arguments_of, bits_of, bytes_of, check_pure, work_of


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

    def stride(self, value: ir.Value) -> int | None:
        """How a value changes; what is made outside the loop does not."""
        return self.strides.get(id(value), 0)

    def apart(self, load: Any) -> int:
        """How many elements there are from one that is loaded to the next."""
        return (self.stride(load.operands[0]) or 0) // bytes_of(load.type)

    @property
    def only_moves(self) -> bool:
        """True of a loop that copies elements or makes them 0, which LLVM has done by the C library."""
        stores = [i for i in self.loop.instructions if isinstance(i, kinds.StoreInstr)]
        values = [i.operands[0] for i in stores]
        copies = all(isinstance(v, kinds.LoadInstr) and self.stride(v) is None for v in values)
        zeros = all(isinstance(v, ir.Constant) and not v.constant for v in values)
        return (self.cost == 2 * len(stores) and copies) or (self.cost == len(stores) and zeros)

    def seen(self, value: ir.Value) -> ir.Value:
        """What a value is, but for having been on the stack."""
        return self.variables.values.get(id(value), value)


def facts_of(loop: InnermostLoop) -> LoopFacts:
    """What is known of a loop. Raises NotPlain where its iterations must stay as they are."""
    facts = LoopFacts(loop, variables_of(loop))
    facts.strides[id(loop.variable)] = loop.step
    for i in loop.instructions:
        facts.strides[id(i)] = stride = _stride(facts, i)
        if stride is None and i is facts.seen(i):
            work = _work(i)
            facts.cost += work.cost
            facts.bits = max(facts.bits, work.bits)
    _check_memory(facts)
    return facts


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
        if facts.stride(pointer) != bytes_of(value.type):
            raise NotPlain
        return None
    if isinstance(i, kinds.LoadInstr):
        stride = facts.stride(i.operands[0])
        if stride is None or not (stride in (0, bytes_of(i.type)) or is_picked(i.type, stride)):
            raise NotPlain
        return None if stride else 0
    strides = [facts.stride(o) for o in arguments_of(i)]
    if isinstance(i, kinds.GEPInstr):
        if any(s is None for s in strides):
            raise NotPlain
        if not any(strides):
            return 0
        if len(strides) != 2:
            raise NotPlain
        grows = strides[0] + strides[1] * bytes_of(i.source_etype)  # type: ignore[operator]
        if not grows:
            raise NotPlain
        return grows
    steady = isinstance(i.type, ir.IntType) and None not in strides and any(strides)
    # where steps cancel each other, what stays is still made of what changes, and so not before the loop
    if steady and (linear := _linear(i, strides)):
        return linear
    if isinstance(i, kinds.CallInstr) and isinstance(i.type, ir.VoidType):
        raise NotPlain
    check_pure(i)
    return 0 if all(s == 0 for s in strides) else None


def _linear(i: Any, strides: list[Any]) -> int | None:
    if i.opname in ("add", "sub"):
        return strides[0] + strides[1] if i.opname == "add" else strides[0] - strides[1]
    if i.opname == "trunc":
        return strides[0]
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


# -- memory: arrays that are written are read where they are written alone, and before
def _check_memory(facts: LoopFacts) -> None:
    stored: dict[int, tuple[int, ir.Value]] = {}
    variables = facts.variables
    instructions = [i for i in facts.loop.instructions if id(i) not in variables.loads | variables.stores]
    for number, i in enumerate(instructions):
        if isinstance(i, kinds.StoreInstr):
            root = root_of(i.operands[1])
            if root is None or id(root) in stored:
                raise NotPlain
            stored[id(root)] = number, i.operands[1]
    if not stored:
        return
    for number, i in enumerate(instructions):
        if not isinstance(i, kinds.LoadInstr):
            continue
        root = root_of(i.operands[0])
        if root is None:
            raise NotPlain
        if id(root) in stored:
            when, pointer = stored[id(root)]
            if number > when or not _same(pointer, i.operands[0]):
                raise NotPlain


def root_of(pointer: Any) -> ir.Value | None:
    """The array that an address is in: an argument that no other overlaps, or memory of the stack."""
    while isinstance(pointer, kinds.GEPInstr):
        pointer = pointer.operands[0]
    if isinstance(pointer, (kinds.AllocaInstr, ir.GlobalVariable)):
        return pointer
    if isinstance(pointer, ir.Argument) and "noalias" in pointer.attributes:
        return pointer
    return None


def _same(x: Any, y: Any) -> bool:
    """True where two values are written alike."""
    if x is y:
        return True
    if isinstance(x, ir.Constant) or isinstance(y, ir.Constant):
        return isinstance(x, ir.Constant) and isinstance(y, ir.Constant) and x.constant == y.constant
    if type(x) is not type(y) or not isinstance(x, (kinds.GEPInstr, kinds.Instruction)):
        return False
    if isinstance(x, (kinds.PhiInstr, kinds.LoadInstr, kinds.AllocaInstr)) or x.opname != y.opname:
        return False
    if x.type != y.type or any(getattr(x, name, None) != getattr(y, name, None) for name in ("source_etype", "op")):
        return False
    return len(x.operands) == len(y.operands) and all(map(_same, x.operands, y.operands))
