"""A computation while a function or a region becomes one: what its values are, and what it takes from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xloom.hlo.attributes import Metadata
from xloom.hlo.computation import Computation
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape, tuple_shape
from xloom.stablehlo.translate.rules import RULES, NotTranslatedError

if TYPE_CHECKING:
    from xloom.stablehlo.translate.program import Program

FRONTEND = "mhlo.frontend_attributes"
_RETURNS = frozenset({"stablehlo.return", "func.return"})
_CONSTANT = frozenset({"constant", "broadcast", "iota"})
"""What a region has anew rather than takes from outside, if its operands are such, too."""
_DEEPEST = 60
"""Regions in each other: more would take more of Python's stack than there may be."""
_NO_METADATA = Metadata()


class Captures:
    """Values from outside that regions read, in the order in which they are met: elements of the regions' tuple."""

    def __init__(self, first: int):
        self.first = first
        """How many elements come before them."""
        self.sources: dict[Any, Instruction] = {}
        """What they are outside, by value."""
        self._indices: dict[Any, int] = {}

    def index(self, value: Any, source: Instruction) -> int:
        """The element that a value is."""
        self.sources.setdefault(value, source)
        return self._indices.setdefault(value, self.first + len(self._indices))


def only_block(region: Any) -> Any:
    """The block of a region. Raises NotTranslatedError where there is none, or are several."""
    blocks = list(region.blocks)
    if len(blocks) != 1:
        raise NotTranslatedError(f"{len(blocks)} blocks")
    return blocks[0]


class Scope:
    """Adds the instructions of a block."""

    def __init__(self, program: Program, name: str, outer: Scope | None = None, captures: Captures | None = None):
        self.program = program
        self.computation = Computation(name)
        self.depth: int = outer.depth + 1 if outer else 0
        if self.depth > _DEEPEST:
            raise NotTranslatedError("regions in each other")
        self._outer, self._captures = outer, captures
        self._values: dict[Any, Instruction] = {}
        self._metadata, self._wish = _NO_METADATA, ""
        self.state: Instruction | None = None
        """The parameter that is the tuple of what `captures` has, and more."""

    # -- values
    def shape(self, value: Any) -> Shape:
        """The shape of a value."""
        return self.program.types.shape(value.type)

    def value(self, value: Any) -> Instruction:
        """The instruction that a value is here."""
        found = self._values.get(value)
        if found is None:
            found = self._values[value] = self._from_outside(value)
        return found

    def values(self, values: Any) -> list[Instruction]:
        """Those of several."""
        return [self.value(value) for value in values]

    def define(self, value: Any, instruction: Instruction) -> None:
        """Says what a value is."""
        self._values[value] = instruction

    def _from_outside(self, value: Any) -> Instruction:
        if self._outer is None:
            raise NotTranslatedError("a value that is defined nowhere")
        source = self._outer.value(value)
        if _is_constant(source):
            return self._again(source)
        if self._captures is None or self.state is None:
            raise NotTranslatedError("a region without a state that reads a value from outside")
        index = self._captures.index(value, source)
        return self.add("get-tuple-element", source.shape, [self.state], {"index": index}, "capture")

    def _again(self, source: Instruction) -> Instruction:
        return self.add(source.opcode, source.shape, [self._again(o) for o in source._operands], dict(source.attrs))

    # -- instructions
    def add(
        self,
        opcode: str,
        shape: Shape,
        operands: Sequence[Instruction] = (),
        attrs: dict[str, Any] | None = None,
        name: str = "",
    ) -> Instruction:
        """An instruction, with the metadata of the operation that is being translated."""
        instruction = Instruction(name or self._wish or opcode, opcode, shape, operands, attrs)
        instruction.metadata = self._metadata
        return self.computation.add(instruction)

    def emit(
        self, op: Any, opcode: str, attrs: dict[str, Any] | None = None, operands: Sequence[Instruction] | None = None
    ) -> None:
        """Adds the instruction that an operation is, and its results: several are elements of a tuple."""
        operands = self.values(op.operands) if operands is None else operands
        results = list(op.results)
        shapes = [self.shape(r) for r in results]
        if len(results) == 1:
            self._values[results[0]] = self.add(opcode, shapes[0], operands, attrs)
        else:
            self.define_elements(results, self.add(opcode, tuple_shape(shapes), operands, attrs))

    def define_elements(self, values: Sequence[Any], whole: Instruction) -> None:
        """Says that values are the first elements of a tuple."""
        for k, value in enumerate(values):
            self._values[value] = self.add(
                "get-tuple-element", whole.shape.elements[k], [whole], {"index": k}, "element"
            )

    def parameters(self, block: Any, name: str) -> None:
        """A parameter for each argument of a block."""
        for k, argument in enumerate(block.arguments):
            attrs = {"parameter_number": k}
            self.define(argument, self.add("parameter", self.shape(argument), (), attrs, f"{name}_{k}"))

    def tuple(self, operands: Sequence[Instruction]) -> Instruction:
        """The tuple of instructions; of a single one, itself."""
        if len(operands) == 1:
            return operands[0]
        return self.add("tuple", tuple_shape([o.shape for o in operands]), operands, name="tuple")

    # -- blocks
    def block(self, block: Any) -> list[Instruction]:
        """Translates a block; what it returns."""
        locations = self.program.locations
        for op in block.operations:
            operation = op.operation
            name = operation.name
            if name in _RETURNS:
                self._metadata, self._wish = _NO_METADATA, ""
                return self.values(op.operands)
            known = RULES.get(name)
            if known is None:
                raise NotTranslatedError(name)
            attributes = operation.attributes
            if len(attributes):
                unknown = [a for a in attributes if a not in known.attributes and a != FRONTEND]
                if unknown:
                    raise NotTranslatedError(f"{name} with {', '.join(map(str, unknown))}")
            self._metadata = locations.metadata(operation.location)
            self._wish = self._metadata.op_name.rpartition("/")[2]
            known.translate(self, op)
            if FRONTEND in attributes:
                self._annotate(op, attributes[FRONTEND])
        raise NotTranslatedError("a block without an end")

    def _annotate(self, op: Any, attributes: Any) -> None:
        results = list(op.results)
        made = self._values[results[0]] if results else next(reversed(self.computation._instructions))
        if made.opcode == "get-tuple-element":
            made = made._operands[0]
        made.frontend_attributes = {**strings(attributes), **made.frontend_attributes}

    def finish(self, root: Instruction) -> Computation:
        """The computation, with its result."""
        self.computation.root = root
        self.program.computations.append(self.computation)
        return self.computation


def strings(attributes: Any) -> dict[str, str]:
    """A dictionary of strings. Raises NotTranslatedError for one of other things."""
    found = {}
    for k in range(len(attributes)):
        value = getattr(attributes[k].attr, "value", None)
        if not isinstance(value, str):
            raise NotTranslatedError(f"{FRONTEND} of {attributes[k]}")
        found[attributes[k].name] = value
    return found


def _is_constant(instruction: Instruction) -> bool:
    return instruction.opcode in _CONSTANT and all(o.opcode == "constant" for o in instruction._operands)
