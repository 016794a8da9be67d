"""Variables on the stack that a loop body writes: what each iteration has for itself, and what goes on to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as kinds

from xloom.llvm.vectorizer.innermost_loops import InnermostLoop
from xloom.llvm.vectorizer.not_plain import NotPlain
from xloom.llvm.vectorizer.widening import arguments_of, intrinsic_name

_OPERATORS = frozenset(["add", "mul", "and", "or", "xor"])
_EXTREMA = frozenset(["smax", "smin", "umax", "umin"])


@dataclass(eq=False)
class Accumulator:
    """A variable that each iteration merges values into, in any order."""

    pointer: ir.Value
    load: ir.Instruction
    operator: ir.Instruction
    """The last one that merges."""

    @property
    def kind(self) -> str:
        """The operator's name."""
        return kind_of(self.operator)


@dataclass(eq=False)
class Variables:
    """The variables of a body; values and instructions by identity."""

    values: dict[int, ir.Value] = field(default_factory=dict)
    """What loads give that was stored before in the same iteration."""
    carried: set[int] = field(default_factory=set)
    """The loads of what the iteration before has left."""
    stores: set[int] = field(default_factory=set)
    accumulators: list[Accumulator] = field(default_factory=list)

    @property
    def loads(self) -> set[int]:
        """All loads of variables."""
        return self.carried | self.values.keys()


def variables_of(loop: InnermostLoop) -> Variables:
    """The variables that a body writes. Raises NotPlain where an order matters that vectors would not keep."""
    found = Variables()
    for pointer, uses in _written(loop):
        current, carried = None, None
        for i in uses:
            if isinstance(i, kinds.StoreInstr):
                current = found.values.get(id(i.operands[0]), i.operands[0])
                found.stores.add(id(i))
            elif current is not None:
                found.values[id(i)] = current
            elif carried is None:
                carried = i
                found.carried.add(id(i))
            else:
                raise NotPlain
        if carried is not None and current is carried:  # what is stored is what is there
            found.carried.remove(id(carried))
        elif carried is not None:
            assert current is not None
            found.accumulators.append(Accumulator(pointer, carried, current))
        elif _is_read_elsewhere(pointer, loop):
            raise NotPlain
    for accumulator in found.accumulators:
        _check_chain(accumulator, loop, found)
    return found


def _written(loop: InnermostLoop) -> Iterator[tuple[Any, Sequence[Any]]]:
    seen: set[int] = set()
    for i in loop.instructions:
        pointer = i.operands[1] if isinstance(i, kinds.StoreInstr) else None
        if isinstance(pointer, kinds.AllocaInstr) and id(pointer) not in seen:
            seen.add(id(pointer))
            if isinstance(_allocated(pointer), ir.ArrayType):
                continue
            uses = [i for i in loop.instructions if pointer in i.operands]
            if not all(isinstance(i, (kinds.StoreInstr, kinds.LoadInstr)) for i in uses):
                raise NotPlain
            if not all(loop.is_certain(i) for i in uses):
                raise NotPlain
            yield pointer, uses


def _allocated(pointer: Any) -> ir.Type:
    return pointer.allocated_type


def _is_read_elsewhere(pointer: ir.Value, loop: InnermostLoop) -> bool:
    blocks = (b for b in loop.head.function.blocks if b not in loop.body)
    return any(pointer in i.operands and not isinstance(i, kinds.StoreInstr) for b in blocks for i in b.instructions)


def _check_chain(accumulator: Accumulator, loop: InnermostLoop, variables: Variables) -> None:
    """Only operators of one kind, each of the one before and of something else, may lead from the load to the store."""
    value: Any = accumulator.load
    while value is not accumulator.operator:
        users = _users(value, loop, variables)
        if len(users) != 1 or not _merges(users[0]) or kind_of(users[0]) != accumulator.kind:
            raise NotPlain
        (value,) = users
    if _users(value, loop, variables):
        raise NotPlain


def _users(value: ir.Value, loop: InnermostLoop, variables: Variables) -> list[Any]:
    """Who reads a value, each as often as it does, but for variables' own loads and stores."""
    moves = variables.stores | variables.values.keys()
    readers = (i for i in loop.instructions if id(i) not in moves)
    return [i for i in readers for o in arguments_of(i) if variables.values.get(id(o), o) is value]


def kind_of(operator: Any) -> str:
    """The name of an operator, or of the intrinsic that is called."""
    return intrinsic_name(operator.callee)[0] if isinstance(operator, kinds.CallInstr) else operator.opname


def _merges(operator: Any) -> bool:
    kind = kind_of(operator)
    if kind in ("fadd", "fmul"):
        return "reassoc" in operator.flags
    return kind in (_EXTREMA if isinstance(operator, kinds.CallInstr) else _OPERATORS)
