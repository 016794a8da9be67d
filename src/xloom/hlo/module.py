"""The instruction graph: a `Module` of `Computation`s of `Instruction`s. Mutable, with users tracked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xloom.errors import ShapeError, VerifyError, near
from xloom.hlo.attributes import Metadata
from xloom.hlo.literal import Literal
from xloom.hlo.names import NameUniquer
from xloom.hlo.opcodes import OPCODES, Op
from xloom.hlo.shape import Shape, tuple_shape

_NO_METADATA = Metadata()
_CALLERS = frozenset(name for name, row in OPCODES.items() if row.computations)


class Instruction:
    """One operation. `instruction["dimensions"]` reads an attribute (or its default), and writes it.

    `opcode` is a key of the opcode table, `shape` the result's shape, `attrs` the attributes that were given (a
    constant's `literal` and a parameter's `parameter_number` among them). Operands change through
    `replace_operand` and `replace_all_uses_with`, which keep `users` right.
    """

    __slots__ = (
        "_operands",
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
        if self.opcode not in _CALLERS:
            return ()
        out: list[Computation] = []
        for name in self.op.computations:
            value = self.attrs.get(name)
            if isinstance(value, Computation):
                out.append(value)
            elif value:
                out.extend(value)
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
        old._drop_user(self)
        new._users[self] = new._users.get(self, 0) + 1

    def set_operands(self, operands: Sequence[Instruction]) -> None:
        """Replaces all operands."""
        for old in self._operands:
            old._drop_user(self)
        self._operands = list(operands)
        for new in self._operands:
            new._users[self] = new._users.get(self, 0) + 1

    def _drop_user(self, user: Instruction) -> None:
        count = self._users[user] - 1
        if count:
            self._users[user] = count
        else:
            del self._users[user]

    def replace_all_uses_with(self, new: Instruction) -> None:
        """Makes every user, and the computation's root, use `new` instead. `new` itself keeps its operands."""
        for user, count in list(self._users.items()):
            k = -1
            for _ in range(count if user is not new else 0):
                k = user._operands.index(self, k + 1)
                user.replace_operand(k, new)
        if self.parent is not None and self.parent.root is self:
            self.parent.root = new

    def add_control_predecessor(self, before: Instruction) -> None:
        """Makes this instruction run after `before`."""
        if before.parent is not self.parent:
            raise VerifyError(f"control dependency across computations: {before.name} -> {self.name}")
        mine = self._predecessors = self._predecessors if self._predecessors is not None else []
        if before not in mine:
            mine.append(before)
            if before._successors is None:
                before._successors = []
            before._successors.append(self)

    def drop_control_dependencies(self) -> None:
        """Removes it from the control dependencies on both sides."""
        for before in self._predecessors or ():
            before._successors.remove(self)  # type: ignore[union-attr]
        for after in self._successors or ():
            after._predecessors.remove(self)  # type: ignore[union-attr]
        self._predecessors = self._successors = None

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

    def to_text(self, **options: Any) -> str:
        """One line of HLO; options as for `Module.to_text`."""
        from xloom.hlo.printer import PrintOptions, instruction_text

        return instruction_text(self, PrintOptions(**options))

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<%{self.name} = {self.shape} {self.opcode}({', '.join('%' + o.name for o in self._operands)})>"


class Computation:
    """A function: instructions, of which some are parameters and one is the root."""

    def __init__(self, name: str):
        self.name = name
        self.module: Module | None = None
        self.execution_thread = "main"
        self._instructions: dict[Instruction, None] = {}
        self._root: Instruction | None = None

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
            raise VerifyError(f"computation {self.name} is empty")
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
        return instruction

    def remove(self, instruction: Instruction) -> None:
        """Removes an instruction that has no users. Raises VerifyError when it has, or is the root."""
        if instruction._users:
            raise VerifyError(f"cannot remove {instruction.name}: used by {next(iter(instruction._users)).name}")
        if instruction is self._root:
            raise VerifyError(f"cannot remove {instruction.name}: it is the root of {self.name}")
        instruction.set_operands(())
        instruction.drop_control_dependencies()
        del self._instructions[instruction]
        instruction.parent = None

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
            raise VerifyError(f"new order of {self.name} does not hold each instruction once")
        root = self.root
        self._instructions = new
        self._root = root

    def post_order(self) -> list[Instruction]:
        """The instructions, operands and control predecessors first, in XLA's order."""
        state: dict[Instruction, int] = {}
        order: list[Instruction] = []
        mine = self._instructions
        for start in mine:
            users = start._users
            if users and any(u.parent is not None for u in users):
                continue
            stack = [start] if start not in state else []
            while stack:
                current = stack[-1]
                seen = state.get(current)
                if seen is None:
                    state[current] = 1
                    stack.extend([o for o in reversed(current._operands) if state.get(o) != 2])
                    if current._predecessors:
                        stack.extend([p for p in current._predecessors if state.get(p) != 2])
                    continue
                stack.pop()
                if seen == 1:
                    state[current] = 2
                    order.append(current)
        return order

    def clone(self, suffix: str = "clone", module: Module | None = None) -> Computation:
        """A copy named `name.suffix`, added to `module` (default: its own) with unique names.

        Called computations are shared, not cloned. Raises VerifyError when the copy has nowhere to go.
        """
        module = module or self.module
        if module is None:
            raise VerifyError(f"computation {self.name} is in no module")
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

    def to_text(self, **options: Any) -> str:
        """HLO text; options as for `Module.to_text`."""
        from xloom.hlo.printer import PrintOptions, computation_text

        return computation_text(self, PrintOptions(**options))

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<computation {self.name}: {len(self)} instructions>"


@dataclass(frozen=True)
class InputOutputAlias:
    """An output part that may (or must) reuse the memory of a parameter part."""

    output_index: tuple[int, ...]
    parameter: int
    parameter_index: tuple[int, ...]
    must: bool = False


@dataclass
class ModuleConfig:
    """What a module's header line says beside its name; the defaults are what XLA leaves unprinted."""

    parameter_layouts: list[Shape] | None = None
    result_layout: Shape | None = None
    input_output_alias: list[InputOutputAlias] = field(default_factory=list)
    buffer_donors: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    alias_passthrough_params: bool = False
    propagate_sharding_to_parameters: tuple[bool, ...] = (False,)
    propagate_sharding_to_output: tuple[bool, ...] = (False,)
    replica_count: int = 1
    num_partitions: int = 1
    is_scheduled: bool = False
    unprinted: bytes = b""
    """Fields of a HloModuleProto that HLO text has no words for (SPMD shardings, device assignment), serialised."""


class Module:
    """A program: computations, one of them the entry, and a configuration."""

    def __init__(self, name: str):
        self.name = name
        self.entry: Computation = None  # type: ignore[assignment]  # set by the first add(entry=True)
        self.config = ModuleConfig()
        self.frontend_attributes: dict[str, str] = {}
        self.stack_frames: Any = None
        self.origin_recovery_table: Any = None
        self.debug_attributes: Any = None
        self.source_text: str | None = None
        self.instruction_names = NameUniquer()
        self.computation_names = NameUniquer()
        self._computations: dict[Computation, None] = {}

    @property
    def computations(self) -> tuple[Computation, ...]:
        """Every computation, in the order in which they were added."""
        return tuple(self._computations)

    @property
    def instructions(self) -> Iterator[Instruction]:
        """Every instruction of every computation."""
        for computation in self.computations:
            yield from computation

    def add(self, computation: Computation, *, entry: bool = False, unique: bool = True) -> Computation:
        """Adds a computation; its name and its instructions' are made unique, unless `unique` says they are."""
        computation.module = self
        name = self.computation_names.unique(computation.name)
        if unique:
            computation.name = name
        new_name = self.instruction_names.unique
        for instruction in computation._instructions:
            name = new_name(instruction.name)
            if unique:
                instruction.name = name
        self._computations[computation] = None
        if entry:
            self.entry = computation
        return computation

    def remove(self, computation: Computation) -> None:
        """Removes a computation that nothing calls. Raises VerifyError for the entry."""
        if computation is self.entry:
            raise VerifyError(f"cannot remove {computation.name}: it is the entry computation")
        del self._computations[computation]
        computation.module = None

    def computation(self, name: str) -> Computation:
        """The computation of that name. Raises KeyError with the nearest names when there is none."""
        for computation in self._computations:
            if computation.name == name:
                return computation
        raise KeyError(f"no computation {name!r}. {near(name, [c.name for c in self._computations])}")

    def computation_post_order(self) -> list[Computation]:
        """The computations, callees before callers, in XLA's order."""
        called = {c for comp in self._computations for i in comp._instructions for c in i.called_computations}
        order: dict[Computation, None] = {}
        for computation in self._computations:
            if computation not in called:
                for embedded in _embedded(computation):
                    order[embedded] = None
                order[computation] = None
        return list(order)

    def callers(self) -> dict[Computation, list[Instruction]]:
        """For each computation, the instructions that call it."""
        out: dict[Computation, list[Instruction]] = {c: [] for c in self._computations}
        for instruction in self.instructions:
            for callee in instruction.called_computations:
                out.setdefault(callee, []).append(instruction)
        return out

    @property
    def parameter_shapes(self) -> list[Shape]:
        """Shapes of the entry's parameters, in the layouts that callers must use."""
        return self.config.parameter_layouts or [p.shape for p in self.entry.parameters]

    @property
    def result_shape(self) -> Shape:
        """Shape of the entry's result, in the layout that callers get."""
        return self.config.result_layout or self.entry.root.shape

    def clone(self, suffix: str = "clone") -> Module:
        """A deep copy named `name-suffix` (the same name if the suffix is empty); instruction names are kept."""
        copy = Module(f"{self.name}-{suffix}" if suffix else self.name)
        copy.config = replace(
            self.config,
            input_output_alias=list(self.config.input_output_alias),
            buffer_donors=list(self.config.buffer_donors),
        )
        copy.frontend_attributes = dict(self.frontend_attributes)
        copy.stack_frames = self.stack_frames
        copy.origin_recovery_table = self.origin_recovery_table
        copy.debug_attributes = self.debug_attributes
        copy.source_text = self.source_text
        cloned: dict[Computation, Computation] = {}
        post_order = self.computation_post_order()
        for computation in post_order:
            cloned[computation] = computation.clone("", copy)
        for computation in cloned.values():  # only now: XLA's order may put a shared callee after its caller
            for instruction in computation._instructions:
                map_called(instruction, cloned.__getitem__)
        copy._computations = {cloned[c]: None for c in self._computations}
        copy.entry = cloned[self.entry]
        return copy

    def to_text(self, **options: Any) -> str:
        """HLO text as XLA prints it. Options are the fields of `printer.PrintOptions`."""
        from xloom.hlo.printer import PrintOptions, module_text

        return module_text(self, PrintOptions(**options))

    def to_proto(self) -> bytes:
        """The module as a serialised HloModuleProto."""
        from xloom.hlo.proto import encode

        return encode(self)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<module {self.name}: {len(self._computations)} computations>"


def map_called(instruction: Instruction, function: Callable[[Computation], Computation]) -> None:
    """Replaces each computation that `instruction` calls by `function` of it."""
    for name in instruction.op.computations:
        value = instruction.attrs.get(name)
        if isinstance(value, Computation):
            instruction.attrs[name] = function(value)
        elif value:
            instruction.attrs[name] = tuple(function(c) for c in value)


def async_computation(instruction: Instruction) -> Computation | None:
    """The computation that an async-start, -update or -done is about, found along the chain."""
    while instruction.opcode != "async-start":
        if instruction.opcode not in ("async-update", "async-done") or not instruction._operands:
            return None
        instruction = instruction._operands[0]
    return instruction.attrs.get("calls")


def _embedded(top: Computation) -> list[Computation]:
    """Everything `top` calls, callees first, first call first; without recursion, since nests can be deep."""
    visited: set[Computation] = set()
    order: list[Computation] = []
    stack: list[tuple[Computation, Iterator[Instruction]]] = []

    def push(instruction: Instruction) -> None:
        for callee in reversed(instruction.called_computations):
            if callee not in visited:
                visited.add(callee)
                stack.append((callee, iter(callee._instructions)))

    for start in top._instructions:
        if start.opcode not in _CALLERS:
            continue
        push(start)
        while stack:
            computation, rest = stack[-1]
            for instruction in rest:
                if instruction.opcode in _CALLERS:
                    depth = len(stack)
                    push(instruction)
                    if len(stack) > depth:
                        break
            else:
                stack.pop()
                order.append(computation)
    return order


def program_shape(computation: Computation) -> tuple[list[Shape], Shape]:
    """Parameter shapes and result shape of a computation."""
    return [p.shape for p in computation.parameters], computation.root.shape


def results_shape(shapes: Sequence[Shape]) -> Shape:
    """The shape alone if there is one, else their tuple. Raises ShapeError when there is none."""
    if not shapes:
        raise ShapeError("an operation needs at least one operand")
    return shapes[0] if len(shapes) == 1 else tuple_shape(shapes)
