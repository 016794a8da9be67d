"""A node of the graph: an `Instruction`, its operands and users, its attributes, and the computations it calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from xloom.errors import VerifyError, near
from xloom.hlo.attributes import Metadata
from xloom.hlo.literal import Literal
from xloom.hlo.opcodes import OPCODES, Op
from xloom.hlo.shape import Shape

if TYPE_CHECKING:
    from xloom.hlo.computation import Computation

CALLERS = frozenset(name for name, row in OPCODES.items() if row.computations)
"""The opcodes of instructions that call computations."""

_MANY = 32
"""Operands that take longer to look through than to write down."""

_NO_METADATA = Metadata()


class Instruction:
    """One operation. `instruction["dimensions"]` reads an attribute (or its default), and writes it.

    `opcode` is a key of the opcode table, `shape` the result's shape, `attrs` the attributes that were given (a
    constant's `literal` and a parameter's `parameter_number` among them). Operands change through
    `replace_operand` and `replace_all_uses_with`, which keep `users` right.
    """

    __slots__ = (
        "_operands",
        "_places",
        "_predecessors",
        "_successors",
        "_users",
        "attrs",
        "backend_config",
        "frontend_attributes",
        "metadata",
        "name",
        "opcode",
        "parent",
        "shape",
        "sharding",
    )

    def __init__(
        self,
        name: str,
        opcode: str,
        shape: Shape,
        operands: Sequence[Instruction] = (),
        attrs: dict[str, Any] | None = None,
    ):
        self.name = name
        self.opcode = opcode
        self.shape = shape
        self.attrs: dict[str, Any] = {} if attrs is None else attrs
        self.metadata: Metadata = _NO_METADATA
        self.sharding: Any = None
        self.backend_config = ""
        self.frontend_attributes: dict[str, str] = {}
        self.parent: Computation | None = None
        self._operands: list[Instruction] = list(operands)
        self._places: dict[Instruction, dict[int, None]] | None = None
        self._users: dict[Instruction, int] = {}
        self._predecessors: list[Instruction] | None = None
        self._successors: list[Instruction] | None = None
        for operand in self._operands:
            operand._users[self] = operand._users.get(self, 0) + 1

    # -- reading
    @property
    def op(self) -> Op:
        """The opcode's row of the table."""
        return OPCODES[self.opcode]

    @property
    def operands(self) -> tuple[Instruction, ...]:
        """The operands, in order."""
        return tuple(self._operands)

    @property
    def users(self) -> tuple[Instruction, ...]:
        """The instructions that have this one as an operand, each once, oldest use first."""
        return tuple(self._users)

    @property
    def control_predecessors(self) -> tuple[Instruction, ...]:
        """Instructions that must run before this one though it does not use them."""
        return tuple(self._predecessors or ())

    @property
    def control_successors(self) -> tuple[Instruction, ...]:
        """Instructions that must run after this one though they do not use it."""
        return tuple(self._successors or ())

    @property
    def called_computations(self) -> tuple[Computation, ...]:
        """The computations in its attributes, in the table's order."""
        if self.opcode not in CALLERS:
            return ()
        out: list[Computation] = []
        for name in self.op.computations:
            value = self.attrs.get(name)
            if isinstance(value, (tuple, list)):
                out.extend(value)
            elif value is not None:
                out.append(value)
        return tuple(out)

    @property
    def literal(self) -> Literal:
        """A constant's value. Raises KeyError on anything else."""
        return self.attrs["literal"]

    @property
    def is_root(self) -> bool:
        """True for its computation's root."""
        return self.parent is not None and self.parent.root is self

    @property
    def is_dead(self) -> bool:
        """True when nothing needs its value: no instruction uses it, and it is not the root."""
        return not self._users and not self.is_root

    def __getitem__(self, name: str) -> Any:
        if name in self.attrs:
            return self.attrs[name]
        use = self.op.attributes.get(name)
        if use is None:
            raise KeyError(f"{self.opcode} has no attribute {name!r}. {near(name, self.op.attributes)}")
        return use.info.default

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self.op.attributes:
            raise KeyError(f"{self.opcode} has no attribute {name!r}. {near(name, self.op.attributes)}")
        self.attrs[name] = value

    # -- editing
    def replace_operand(self, index: int, new: Instruction) -> None:
        """Makes `new` operand number `index`."""
        old = self._operands[index]
        if old is new:
            return
        self._operands[index] = new
        self._reordered()
        if self._places is not None:
            del self._places[old][index]
            self._places.setdefault(new, {})[index] = None
        old._drop_user(self)
        new._users[self] = new._users.get(self, 0) + 1

    def set_operands(self, operands: Sequence[Instruction]) -> None:
        """Replaces all operands."""
        for old in self._operands:
            old._drop_user(self)
        self._operands, self._places = list(operands), None
        self._reordered()
        for new in self._operands:
            new._users[self] = new._users.get(self, 0) + 1

    def _reordered(self) -> None:
        """Its computation's order is no longer what it was."""
        if self.parent is not None:
            self.parent._post_order = None

    def _drop_user(self, user: Instruction) -> None:
        count = self._users[user] - 1
        if count:
            self._users[user] = count
        else:
            del self._users[user]

    def replace_all_uses_with(self, new: Instruction) -> None:
        """Makes every user, and the computation's root, use `new` instead. `new` itself keeps its operands."""
        for user in list(self._users):
            for k in user._places_of(self) if user is not new else ():
                user.replace_operand(k, new)
        if self.parent is not None and self.parent.root is self:
            self.parent.root = new

    def _places_of(self, operand: Instruction) -> list[int]:
        """The numbers under which it has an operand; noted down where there are many, each of which may be replaced."""
        if len(self._operands) < _MANY:
            return [k for k, o in enumerate(self._operands) if o is operand]
        if self._places is None:
            self._places = {}
            for k, o in enumerate(self._operands):
                self._places.setdefault(o, {})[k] = None
        return list(self._places.get(operand, ()))

    def add_control_predecessor(self, before: Instruction) -> None:
        """Makes this instruction run after `before`."""
        if before.parent is not self.parent:
            hint = "control dependencies order what is in one computation"
            raise VerifyError(f"control dependency across computations: {before.name} -> {self.name}", hint=hint)
        mine = self._predecessors = self._predecessors if self._predecessors is not None else []
        if before not in mine:
            mine.append(before)
            if before._successors is None:
                before._successors = []
            before._successors.append(self)
            self._reordered()

    @property
    def has_control_dependencies(self) -> bool:
        """Whether anything runs before it, or after it, only because a control dependency says so."""
        return bool(self._predecessors or self._successors)

    def drop_control_dependencies(self) -> None:
        """Removes it from the control dependencies on both sides."""
        for before in self._predecessors or ():
            before._successors.remove(self)  # type: ignore[union-attr]
        for after in self._successors or ():
            after._predecessors.remove(self)  # type: ignore[union-attr]
        self._predecessors = self._successors = None
        self._reordered()

    def transfer_control_dependencies_to(self, new: Instruction) -> None:
        """Moves its control dependencies to `new`."""
        before, after = self.control_predecessors, self.control_successors
        self.drop_control_dependencies()
        for instruction in before:
            if instruction is not new:
                new.add_control_predecessor(instruction)
        for instruction in after:
            if instruction is not new:
                instruction.add_control_predecessor(new)

    def copy_annotations(self, source: Instruction) -> None:
        """Takes over metadata, sharding, backend config and frontend attributes of `source`."""
        self.metadata = source.metadata
        self.sharding = source.sharding
        self.backend_config = source.backend_config
        self.frontend_attributes = dict(source.frontend_attributes)

    def clone(
        self,
        operands: Sequence[Instruction] | None = None,
        *,
        shape: Shape | None = None,
        name: str | None = None,
    ) -> Instruction:
        """A copy outside any computation, with the same attributes and annotations, and no control dependencies."""
        new = Instruction(
            self.name if name is None else name,
            self.opcode,
            self.shape if shape is None else shape,
            self._operands if operands is None else operands,
            dict(self.attrs),
        )
        new.copy_annotations(self)
        return new

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """For `pickle` and `copy`, which would go from operand to operand on Python's stack: a part of its parent."""
        if self.parent is None:
            return object.__reduce_ex__(self, protocol)
        return _instruction_of, (self.parent, list(self.parent._instructions).index(self))

    def to_text(self, **options: Any) -> str:
        """One line of HLO; options as for `Module.to_text`."""
        from xloom.hlo.text.printer import PrintOptions, instruction_text

        return instruction_text(self, PrintOptions(**options))

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<%{self.name} = {self.shape} {self.opcode}({', '.join('%' + o.name for o in self._operands)})>"


def _instruction_of(computation: Computation, number: int) -> Instruction:
    return computation.instructions[number]


def map_called(instruction: Instruction, function: Callable[[Computation], Computation]) -> None:
    """Replaces each computation that `instruction` calls by `function` of it."""
    for name in instruction.op.computations:
        value = instruction.attrs.get(name)
        if isinstance(value, (tuple, list)):
            instruction.attrs[name] = tuple(function(c) for c in value)
        elif value is not None:
            instruction.attrs[name] = function(value)
