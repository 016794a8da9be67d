"""Builds modules an instruction at a time; every opcode of the table is a method."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xloom.errors import ShapeError, VerifyError, near
from xloom.hlo.attribute_values import attribute_value
from xloom.hlo.attributes import Metadata
from xloom.hlo.builder_arguments import is_operand, is_shape, operands_of, shape_of
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal, literal
from xloom.hlo.module import Module
from xloom.hlo.opcodes import OPCODES
from xloom.hlo.shape import Shape
from xloom.infer import infer_shape

_REGISTERED = "what runs is registered under a name: @xl.custom_call(name), xloom.calls.register_c, ..."
_BY_METHOD = {name.replace("-", "_"): name for name in OPCODES}


class ComputationBuilder:
    """Adds instructions to one computation.

    Each opcode is a method, with `_` for `-` and at the end of Python's own words (`tuple_` or `tuple`, `while_`):
    `b.add(x, y)`, `b.reduce(x, init, dimensions=(0,), to_apply=add)`, `b.get_tuple_element(t, index=1)`. Operands come
    by position, one by one or in a list, attributes by name, as `xloom ops OPCODE` lists them. The result's shape is
    inferred, or given as `shape=`, several for a tuple; `name=` wishes for a name. Shapes are `xl.f32[2, 3]`, scalars
    `xl.f32[()]`; operators of elements take operands of equal dims and dtype, without broadcasting or promotion.
    Each instruction's metadata has the Python line that made it, unless `source_lines` is False.

    Methods raise ShapeError for operands or attributes that do not fit, VerifyError for instructions of another
    computation, AttributeError for an opcode that there is not.
    """

    def __init__(self, name: str, module: Module, *, source_lines: bool = True):
        self._computation = Computation(name)
        self._module = module
        self._source_lines = source_lines
        self._parameters = 0

    def parameter(self, shape: Shape, name: str = "") -> Instruction:
        """The next parameter of the computation, of `shape`: an array's, or a tuple's. Raises ShapeError for others."""
        number, shape = self._parameters, shape_of("a parameter", shape)
        self._parameters += 1
        attrs = {"parameter_number": number}
        return self._append(name or f"p{number}", "parameter", shape, (), attrs)

    def constant(self, value: object, dtype: DType | None = None, name: str = "") -> Instruction:
        """A constant: an array, scalar, nested tuple, or Literal. Python ints are s32, floats f32."""
        lit = value if isinstance(value, Literal) else literal(value, dtype)
        return self._append(name or "constant", "constant", lit.shape, (), {"literal": lit})

    def custom_call(
        self,
        target: str,
        *operands: Instruction | Shape | Sequence[Instruction] | Sequence[Shape],
        shape: Shape | Sequence[Shape] | None = None,
        opaque: str | bytes = "",
        name: str = "",
        **attributes: Any,
    ) -> Instruction:
        """A call of code registered under `target`, as `b.custom_call("f", x, y, shape=s)`.

        Operands may be in a list, as in `b.custom_call("f", [x, y], s)`, whose last argument is the shape.
        `opaque` becomes its `backend_config`. Raises ShapeError as `emit` does.
        """
        given = list(operands)
        if shape is None and given and (is_shape(given[-1]) or not is_operand(given[-1])):
            shape = given.pop()  # type: ignore[assignment]
        if not isinstance(target, str):
            raise ShapeError(f"custom-call has the name of a target, found {target!r}", hint=_REGISTERED)
        if not isinstance(opaque, str | bytes):
            raise ShapeError(f"custom-call has text or bytes as opaque, found {opaque!r}", hint="json.dumps gives text")
        if "backend_config" in attributes:
            raise ShapeError("custom-call has no attribute 'backend_config' here", hint="it is opaque=")
        found = operands_of("custom-call", given)
        if shape is None:
            raise ShapeError(
                "custom-call needs the shape of its result", hint="shape=xl.f32[2, 3], several for a tuple"
            )
        text = opaque.decode("utf-8", "surrogateescape") if isinstance(opaque, bytes) else opaque
        attrs = {"custom_call_target": target, **_checked(attributes, "custom-call")}
        instruction = self._append(
            name or "custom-call", "custom-call", shape_of("custom-call's result", shape), found, attrs
        )
        instruction.backend_config = text
        return instruction

    def emit(
        self,
        opcode: str,
        *operands: Instruction | Sequence[Instruction],
        shape: Shape | Sequence[Shape] | None = None,
        name: str = "",
        **attributes: Any,
    ) -> Instruction:
        """An instruction of any opcode. Raises ShapeError when operands or attributes do not fit."""
        row = OPCODES.get(opcode)
        if row is None:
            raise ShapeError(f"unknown opcode {opcode!r}", hint=near(opcode, OPCODES))
        attributes = _checked(attributes, opcode)
        found = operands_of(opcode, operands)
        if row.arity >= 0 and len(found) != row.arity:
            hint = f"`xloom ops {opcode}` says which; attributes go by name"
            raise ShapeError(f"{opcode} takes {row.arity} operands, found {len(found)}", hint=hint)
        missing = [n for n, u in row.attributes.items() if u.required and n not in attributes]
        if missing:
            raise ShapeError(f"{opcode} needs {', '.join(missing)}", hint=row.attributes[missing[0]].info.doc)
        if shape is None:
            result = infer_shape(opcode, [o.shape for o in found], attributes)
        else:
            result = shape_of(f"{opcode}'s result", shape)
        return self._append(name or opcode, opcode, result, found, attributes)

    def _append(
        self, name: str, opcode: str, shape: Shape, operands: Sequence[Instruction], attrs: Mapping[str, Any]
    ) -> Instruction:
        for operand in operands:
            if operand.parent is not self._computation:
                raise VerifyError(
                    f"{operand.name} belongs to another computation than {name}",
                    hint="the builder of a computation makes all that is in it; what it reads are its parameters",
                )
        instruction = Instruction(name, opcode, shape, operands, dict(attrs))
        if self._source_lines:
            instruction.metadata = _caller()
        instruction.name = self._module.instruction_names.unique(name)
        return self._computation.add(instruction)

    def __getattr__(self, name: str) -> Callable[..., Instruction]:
        # tuple_, while_ and the like, for names that Python keeps to itself
        opcode = _BY_METHOD.get(name.rstrip("_"))
        if opcode is None or name.startswith("__"):
            raise AttributeError(f"no opcode {name!r}. {near(name, _BY_METHOD)}")
        return lambda *operands, **options: self.emit(opcode, *operands, **options)

    def finish(self, root: Instruction | None = None) -> Computation:
        """The computation, added to the module; its root is `root` or the last instruction."""
        if root is not None:
            if not isinstance(root, Instruction):
                raise ShapeError(f"a root is an instruction, found {root!r}", hint="several results: b.tuple(x, y)")
            if root.parent is not self._computation:
                raise VerifyError(
                    f"root {root.name} belongs to another computation than {self._computation.name}",
                    hint="the root is an instruction that this builder has made",
                )
            self._computation.root = root
        self._computation.module = self._module
        self._computation.name = self._module.computation_names.unique(self._computation.name)
        self._module._computations[self._computation] = None
        return self._computation


class Builder(ComputationBuilder):
    """Builds a module: its own instructions are the entry computation's.

    What is called, such as the computation that a reduce applies, is built by `computation(name)` and its `finish`.

        b = xl.Builder("row_sums")
        x = b.parameter(xl.f32[8, 128])
        add = b.computation("add")
        total = add.finish(add.add(add.parameter(xl.f32[()]), add.parameter(xl.f32[()])))
        module = b.build(b.reduce(x, b.constant(0.0), dimensions=(1,), to_apply=total))   # f32[8]
    """

    def __init__(self, name: str, *, source_lines: bool = True):
        super().__init__("main", Module(name), source_lines=source_lines)

    def computation(self, name: str) -> ComputationBuilder:
        """A builder of another computation of this module, for `to_apply=` and the like."""
        return ComputationBuilder(name, self._module, source_lines=self._source_lines)

    def build(self, root: Instruction | None = None) -> Module:
        """The module; its root is `root` or the last instruction. Raises VerifyError for another computation's."""
        self.finish(root)
        self._module.entry = self._computation
        return self._module


def _checked(attributes: Mapping[str, Any], opcode: str) -> dict[str, Any]:
    known = OPCODES[opcode].attributes
    for name in attributes:
        if name not in known:
            hint = near(name, known) or (f"it has: {', '.join(known)}" if known else "it has none")
            raise ShapeError(f"{opcode} has no attribute {name!r}", hint=hint)
    return {name: attribute_value(opcode, known[name].info, value) for name, value in attributes.items()}


def _caller() -> Metadata:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return Metadata(source_file=frame.f_code.co_filename, source_line=frame.f_lineno)
