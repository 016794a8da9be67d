"""A function of the program: a `Computation` holds instructions in order, of which one is its result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

from xloom.errors import VerifyError
from xloom.hlo.instruction import Instruction
from xloom.hlo.pickling import flattened, unflattened

if TYPE_CHECKING:
    from xloom.hlo.module import Module


class Computation:
    """A function: instructions, of which some are parameters and one is the root."""

    def __init__(self, name: str):
        self.name = name
        self.module: Module | None = None
        self.execution_thread = "main"
        self._instructions: dict[Instruction, None] = {}
        self._root: Instruction | None = None
        self._post_order: list[Instruction] | None = None
        """`post_order`, until something changes it."""

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """Every instruction, in the order in which they were added: the schedule, if the module is scheduled."""
        return tuple(self._instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(tuple(self._instructions))

    def __len__(self) -> int:
        return len(self._instructions)

    def __contains__(self, instruction: Instruction) -> bool:
        return instruction in self._instructions

    @property
    def root(self) -> Instruction:
        """The result: the instruction set as root, else the last one added."""
        if self._root is not None:
            return self._root
        if not self._instructions:
            raise VerifyError(f"computation {self.name} is empty", hint="add an instruction before asking for its root")
        return next(reversed(self._instructions))

    @root.setter
    def root(self, instruction: Instruction) -> None:
        self._root = instruction

    @property
    def parameters(self) -> list[Instruction]:
        """The parameters by number."""
        found = [i for i in self._instructions if i.opcode == "parameter"]
        return sorted(found, key=lambda i: i.attrs["parameter_number"])

    @property
    def is_entry(self) -> bool:
        """True for its module's entry computation."""
        return self.module is not None and self.module.entry is self

    def add(self, instruction: Instruction, *, unique: bool = True) -> Instruction:
        """Adds an instruction; its name is made unique in the module unless `unique` is False."""
        instruction.parent = self
        if unique and self.module is not None:
            instruction.name = self.module.instruction_names.unique(instruction.name)
        self._instructions[instruction] = None
        self._post_order = None
        return instruction

    def remove(self, instruction: Instruction) -> None:
        """Removes an instruction that has no users. Raises VerifyError when it has, or is the root."""
        if instruction._users:
            user = next(iter(instruction._users)).name
            raise VerifyError(f"cannot remove {instruction.name}: used by {user}", hint="replace_all_uses_with first")
        if instruction is self._root:
            hint = "set `root` to another instruction first"
            raise VerifyError(f"cannot remove {instruction.name}: it is the root of {self.name}", hint=hint)
        instruction.set_operands(())
        instruction.drop_control_dependencies()
        del self._instructions[instruction]
        instruction.parent = None
        self._post_order = None

    def replace(self, old: Instruction, new: Instruction) -> None:
        """Puts `new` (added if it is not here yet) in the place of `old`, and removes `old`."""
        if new.parent is None:
            self.add(new)
        if not new.metadata.op_name and not new.metadata.source_file:
            new.metadata = old.metadata
        if new.sharding is None:
            new.sharding = old.sharding
        old.transfer_control_dependencies_to(new)
        old.replace_all_uses_with(new)
        if old.opcode != "parameter":
            self.remove(old)

    def reorder(self, order: Iterable[Instruction]) -> None:
        """Sets the order of the instructions; `order` must hold each exactly once."""
        new = dict.fromkeys(order)
        if len(new) != len(self._instructions) or any(i not in self._instructions for i in new):
            raise VerifyError(
                f"new order of {self.name} does not hold each instruction once",
                hint="reorder takes all instructions of the computation, each once",
            )
        root = self.root
        self._instructions = new
        self._root = root
        self._post_order = None

    def post_order(self) -> list[Instruction]:
        """The instructions, operands and control predecessors first, in XLA's order."""
        if self._post_order is None:
            self._post_order = self._in_post_order()
        return self._post_order.copy()

    def _in_post_order(self) -> list[Instruction]:
        state: dict[Instruction, int] = {}
        order: list[Instruction] = []
        mine = self._instructions
        known = state.get
        for start in mine:
            if start in state or (start._users and any([user.parent is not None for user in start._users])):
                continue
            stack = [start]
            while stack:
                current = stack[-1]
                seen = known(current)
                if seen is None:
                    first = [o for o in reversed(current._operands) if known(o) != 2]
                    if current._predecessors:
                        first += [p for p in current._predecessors if known(p) != 2]
                    if first:
                        state[current] = 1
                        stack += first
                        continue
                stack.pop()
                if seen != 2:
                    state[current] = 2
                    order.append(current)
        return order

    def clone(self, suffix: str = "clone", module: Module | None = None) -> Computation:
        """A copy named `name.suffix`, added to `module` (default: its own) with unique names.

        Called computations are shared, not cloned. Raises VerifyError when the copy has nowhere to go.
        """
        module = module or self.module
        if module is None:
            hint = "clone(suffix, module) says which is to have the copy"
            raise VerifyError(f"computation {self.name} is in no module", hint=hint)
        copy = Computation(f"{self.name}.{suffix}" if suffix else self.name)
        copy.execution_thread = self.execution_thread
        copies: dict[Instruction, Instruction] = {}
        order = self.post_order()
        for old in order:
            copies[old] = copy.add(old.clone([copies[o] for o in old._operands]), unique=False)
        for old in order:
            for before in old._predecessors or ():
                copies[old].add_control_predecessor(copies[before])
        copy.reorder(copies[i] for i in self._instructions)
        copy.root = copies[self.root]
        return module.add(copy)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """For `pickle` and `copy`, which would go from operand to operand on Python's stack: a part of its module."""
        if self.module is None:
            return _alone, (flattened([self]),)
        return _computation_of, (self.module, self.module.computations.index(self))

    def to_text(self, **options: Any) -> str:
        """HLO text; options as for `Module.to_text`."""
        from xloom.hlo.text.printer import PrintOptions, computation_text

        return computation_text(self, PrintOptions(**options))

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<computation {self.name}: {len(self)} instructions>"


def _alone(flat: list[Any]) -> Computation:
    return unflattened(flat, Computation)[0]


def _computation_of(module: Module, number: int) -> Computation:
    return module.computations[number]
