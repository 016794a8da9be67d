"""A program: a `Module` holds computations, of which one is the entry, and a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, SupportsIndex

from xloom.errors import VerifyError, near
from xloom.hlo.call_graph import callees_first
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction, map_called
from xloom.hlo.names import NameUniquer
from xloom.hlo.pickling import flattened, unflattened
from xloom.hlo.shape import Shape


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
    """A program: computations, one of them the entry, and a configuration.

    `parse`, `load`, `from_proto`, `from_stablehlo` and `Builder.build` make one; `print(module)` is its HLO text. It is
    a graph that may be changed in place: `module.entry` and `module.computations` hold instructions, each with a shape
    (`instruction.shape.dtype`, `.dims`), operands and users. `verify(module)` raises where it breaks a rule of HLO, and
    so do `compile` and, between passes, `run_passes`.

        module = xl.parse("ENTRY main { ROOT x = f32[4] parameter(0) }")
        module.entry.root.shape                  # f32[4]
        xl.compile(module)(np.ones(4, np.float32))

    Names of computations, and of instructions, are unique in a module. One thread may change it at a time.
    """

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
        if unique:
            computation.name = self.computation_names.unique(computation.name)
            for instruction in computation._instructions:
                instruction.name = self.instruction_names.unique(instruction.name)
        else:
            self.computation_names.reserve([computation.name])
            self.instruction_names.reserve([instruction.name for instruction in computation._instructions])
        self._computations[computation] = None
        if entry:
            self.entry = computation
        return computation

    def remove(self, computation: Computation) -> None:
        """Removes a computation that nothing calls. Raises VerifyError for the entry."""
        if computation is self.entry:
            hint = "set `entry` to another computation first"
            raise VerifyError(f"cannot remove {computation.name}: it is the entry computation", hint=hint)
        del self._computations[computation]
        computation.module = None

    def computation(self, name: str) -> Computation:
        """The computation of that name. Raises KeyError with the nearest names when there is none."""
        for computation in self._computations:
            if computation.name == name:
                return computation
        raise KeyError(f"no computation {name!r}. {near(name, [c.name for c in self._computations])}")

    def computation_post_order(self) -> list[Computation]:
        """The computations, callees before callers, the first call first as XLA does."""
        called = {c for comp in self._computations for i in comp._instructions for c in i.called_computations}
        return callees_first(c for c in self._computations if c not in called)

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
        for computation in cloned.values():  # only now: what is not verified may call in a circle
            for instruction in computation._instructions:
                map_called(instruction, cloned.__getitem__)
        copy._computations = {cloned[c]: None for c in self._computations}
        copy.entry = cloned[self.entry]
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        """`copy` itself would go from operand to operand on Python's stack."""
        return self.clone("")

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """For `pickle`, likewise."""
        says = {name: value for name, value in vars(self).items() if name not in ("_computations", "entry")}
        entry = list(self._computations).index(self.entry) if self.entry is not None else -1
        return _module_of, (says, flattened(self._computations), entry)

    def to_text(self, **options: Any) -> str:
        """HLO text as XLA prints it: constants of more than ten elements only with `print_large_constants=True`.

        Options are the fields of `xloom.hlo.text.printer.PrintOptions`; TypeError for others.
        """
        from xloom.hlo.text.printer import PrintOptions, module_text

        return module_text(self, PrintOptions(**options))

    def to_proto(self) -> bytes:
        """The module as a serialised HloModuleProto, with all constants, as `from_proto` and XLA read it."""
        from xloom.hlo.proto.encoder import encode

        return encode(self)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<module {self.name}: {len(self._computations)} computations>"


def _module_of(says: dict[str, Any], flat: list[Any], entry: int) -> Module:
    module = Module("")
    vars(module).update(says)
    for computation in unflattened(flat, Computation):
        computation.module = module
        module._computations[computation] = None
    if entry >= 0:
        module.entry = list(module._computations)[entry]
    return module
