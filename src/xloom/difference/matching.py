"""Which instruction of one module is which of the other: what computes the same, then what has matching neighbours."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from xloom.difference.fingerprints import Fingerprints
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module

_SMALL = frozenset(("parameter", "constant", "get-tuple-element", "tuple", "broadcast", "iota"))
"""Too much alike to be known again in another computation."""


@dataclass
class Matching:
    """Pairs of computations and of instructions: the first module's, and the second's."""

    computations: dict[Computation, Computation] = field(default_factory=dict)
    instructions: dict[Instruction, Instruction] = field(default_factory=dict)
    back: dict[Instruction, Instruction] = field(default_factory=dict)
    """The pairs of instructions the other way round."""


def matched(a: Module, b: Module, *, names: bool = False) -> Matching:
    """Matches two modules; with `names`, equal names of one opcode are a pair before anything else is."""
    return _Matcher(a, b, names).run()


class _Matcher:
    def __init__(self, a: Module, b: Module, names: bool):
        self._a, self._b, self._names = a, b, names
        self._prints = Fingerprints()
        self._found = Matching()
        self._taken: set[Computation] = set()
        self._todo: deque[tuple[Computation, Computation]] = deque()

    def run(self) -> Matching:
        self._pair_computations(self._a.entry, self._b.entry)
        self._work()
        by_name = {c.name: c for c in self._b.computations}
        for computation in self._a.computations:
            other = by_name.get(computation.name)
            if other is not None:
                self._pair_computations(computation, other)
                self._work()
        self._match_across_computations()
        self._work()
        for computation, other in list(self._found.computations.items()):
            self._pair(computation.root, other.root)
            self._spread(computation, self._has_the_same_place)
        self._work()
        return self._found

    def _work(self) -> None:
        while self._todo:
            self._match(*self._todo.popleft())

    def _pair_computations(self, a: Computation, b: Computation) -> None:
        if a not in self._found.computations and b not in self._taken:
            self._found.computations[a] = b
            self._taken.add(b)
            self._todo.append((a, b))

    def _free(self, instruction: Instruction) -> bool:
        return instruction not in self._found.instructions and instruction not in self._found.back

    def _pair(self, a: Instruction, b: Instruction) -> bool:
        if not (self._free(a) and self._free(b)):
            return False
        self._found.instructions[a], self._found.back[b] = b, a
        if len(a.called_computations) == len(b.called_computations):
            for one, other in zip(a.called_computations, b.called_computations, strict=True):
                self._pair_computations(one, other)
        return True

    def _match(self, a: Computation, b: Computation) -> None:
        if self._names:
            self._by(a, b, lambda i: (i.name, i.opcode))
        self._by(a, b, lambda i: (i.name, self._prints.of(i)))
        self._by(a, b, self._prints.of, in_order=True)
        if a.root.opcode == b.root.opcode:
            self._pair(a.root, b.root)
        self._spread(a, lambda x, y: x.opcode == y.opcode and x.shape == y.shape)
        self._spread(a, lambda x, y: x.opcode == y.opcode)
        self._by(a, b, lambda i: (i.name, i.opcode))
        self._by(a, b, lambda i: (i.opcode, i.shape))
        self._spread(a, lambda x, y: x.opcode == y.opcode)

    def _by(
        self, a: Computation, b: Computation, key: Callable[[Instruction], Hashable], *, in_order: bool = False
    ) -> None:
        """Pairs those that are alike; where several are, only `in_order`, and as many on both sides."""
        mine, others = self._groups(a, key), self._groups(b, key)
        for value, group in mine.items():
            other = others.get(value, [])
            if len(group) == len(other) and (in_order or len(group) == 1):
                for x, y in zip(group, other, strict=True):
                    self._pair(x, y)

    def _groups(
        self, computation: Iterable[Instruction], key: Callable[[Instruction], Hashable]
    ) -> dict[Hashable, list[Instruction]]:
        groups = defaultdict(list)
        for instruction in computation:
            if self._free(instruction):
                groups[key(instruction)].append(instruction)
        return groups

    def _spread(self, a: Computation, fits: Callable[[Instruction, Instruction], bool]) -> None:
        """From pair to pair: operands in the same places, then users that read a pair in the same place."""
        todo = deque(i for i in reversed(a.instructions) if i in self._found.instructions)
        while todo:
            x = todo.popleft()
            y = self._found.instructions[x]
            near = list(zip(x.operands, y.operands, strict=False))
            for user in x.users:
                if self._free(user):
                    places = [k for k, o in enumerate(user.operands) if o is x]
                    near += [
                        (user, other)
                        for other in y.users
                        if any(k < len(other.operands) and other.operands[k] is y for k in places)
                    ]
            todo.extend(one for one, other in near if fits(one, other) and self._pair(one, other))

    def _has_the_same_place(self, x: Instruction, y: Instruction) -> bool:
        """Whatever it does, it does it to the same operands, and the same read it."""
        pairs = self._found.instructions
        operands = [pairs.get(o) for o in x.operands] == list(y.operands)
        users = {pairs.get(u) for u in x.users} == set(y.users)
        return (operands and bool(y.operands)) or (users and bool(y.users))

    def _match_across_computations(self) -> None:
        """What computes the same in another computation has moved."""

        def left(module: Module) -> dict[Hashable, list[Instruction]]:
            return self._groups((i for i in module.instructions if i.opcode not in _SMALL), self._prints.of)

        others = left(self._b)
        for value, group in left(self._a).items():
            if len(group) == len(others.get(value, ())) == 1:
                self._pair(group[0], others[value][0])
