"""What a match tells its kernel: values by name, computed by the expressions of the pattern.

A module's frontend attribute `bind.NAME="EXPRESSION"` binds NAME. An expression is Python's arithmetic, comparisons,
`and`, `or`, `not` and `A if C else B` of numbers, strings and names of the pattern's instructions:

    epsilon                 the value of a constant; where it may be missing, value(epsilon, 0)
    size(q, 2)              how many elements dimension 2 of q stands for: 1 if the program has no such dimension
    outermost(x, 1)         how many the first of these dimensions has: 1 if there is none
    axis(x, 1)              the first of the program's dimensions that dimension 1 of x stands for, or -1
    has(mask, 0)            whether the program has a dimension for it
    letters(mask, 'bnts')   the letters of those dimensions that the program has; none where it has no mask
    dtype(scores)           the element type in the program, such as "bf16"
    matched(mask)           whether an operator, constant or parameter is part of the match
    which(activation)       the name of the operand that matched, of a choice
    attribute(c, 'name')    an attribute in the program: an integer, a truth value or text
    sqrt(2)                 the square root

`require="EXPRESSION"` is what must hold for a match. A constant with `value="any"` that no expression names is bound
under its own name, with `_` for `.`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from xloom.calls.match_description import HLO, BoundValue
from xloom.errors import PassError
from xloom.hlo.instruction import Instruction
from xloom.hlo.module import Module
from xloom.passes.pattern.dims import lookup
from xloom.passes.pattern.match import Match

PREFIX = "bind."
REQUIRE = "require"
_RESERVED = frozenset({"pattern", "version", "form", "operands", HLO})
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_UNARY: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.Not: operator.not_}


class UnboundError(Exception):
    """A value that a binding needs is not known in this match."""


def bound_values(match: Match) -> dict[str, BoundValue]:
    """The values that `match` binds.

    Raises UnboundError when one is not known, or what the pattern requires does not hold; PassError for a wrong
    expression.
    """
    module = match.variant.module
    found = {name: _Evaluation(match, name).of(tree) for name, tree in _expressions(module).items()}
    if not found.pop(REQUIRE, True):
        raise UnboundError(f"{module.frontend_attributes[REQUIRE]} does not hold, which the pattern requires")
    named = {_name(node) for tree in _expressions(module).values() for node in ast.walk(tree)}
    for pattern in module.entry:
        if pattern.frontend_attributes.get("value") == "any" and pattern.name not in named:
            value = match.constants.get(pattern)
            if value is not None:
                found[pattern.name.replace(".", "_")] = value.item()
    return found


def version_of(module: Module) -> int:
    """The version of a pattern, which a change of what it binds changes: 1 if it says none."""
    text = module.frontend_attributes.get("version", "1")
    if not text.isdigit():
        raise PassError(f"the pattern's version {text!r} is no number", where=module.name)
    return int(text)


def check_bindings(module: Module) -> None:
    """Raises PassError for an expression that is malformed or names what the pattern does not have."""
    known = {i.name for i in module.entry}
    for name, tree in _expressions(module).items():
        if name in _RESERVED or not name.isidentifier():
            raise PassError(f"a pattern cannot bind the name {name!r}", where=module.name)
        functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(tree):
            used = _name(node)
            if isinstance(node, ast.Call) and _name(node.func) not in _FUNCTIONS:
                hint = f"there are: {', '.join(_FUNCTIONS)}"
                raise PassError(f"binding {name!r} calls {ast.unparse(node.func)!r}", where=module.name, hint=hint)
            if used and used not in known and id(node) not in functions and id(node) not in inner:
                raise PassError(f"binding {name!r} names {used!r}, which the pattern has not", where=module.name)


def _expressions(module: Module) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for key, text in module.frontend_attributes.items():
        if key.startswith(PREFIX) or key == REQUIRE:
            try:
                found[key.removeprefix(PREFIX)] = ast.parse(text.strip(), mode="eval").body
            except SyntaxError as error:
                raise PassError(f"{key}={text!r} is no expression: {error.msg}", where=module.name) from None
    return found


def _name(node: ast.AST) -> str:
    """The instruction's name that a node spells, dots included; an empty string for other nodes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = _name(node.value)
        return f"{head}.{node.attr}" if head else ""
    return ""


class _Evaluation:
    """One binding in one match."""

    def __init__(self, match: Match, name: str):
        self.match = match
        self.name = name

    def of(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name | ast.Attribute):
            return self.constant(node)
        if isinstance(node, ast.BinOp):
            return self.arithmetic(type(node.op), node.left, node.right)
        if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            return _UNARY[type(node.op)](self.of(node.operand))
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self.arithmetic(type(node.ops[0]), node.left, node.comparators[0])
        if isinstance(node, ast.IfExp):
            return self.of(node.body if self.of(node.test) else node.orelse)
        if isinstance(node, ast.BoolOp):
            stops = isinstance(node.op, ast.Or)
            value: Any = not stops
            for part in node.values:
                value = self.of(part)
                if bool(value) == stops:
                    break
            return value
        if isinstance(node, ast.Call) and not node.keywords and _name(node.func) in _FUNCTIONS:
            return _FUNCTIONS[_name(node.func)](self, *node.args)
        raise PassError(
            f"binding {self.name!r} cannot have {ast.unparse(node)!r}", where=self.match.variant.module.name
        )

    def arithmetic(self, kind: type, left: ast.expr, right: ast.expr) -> Any:
        if kind not in _BINARY:
            raise PassError(f"binding {self.name!r} cannot have {kind.__name__}", where=self.match.variant.module.name)
        try:
            return _BINARY[kind](self.of(left), self.of(right))
        except (ZeroDivisionError, OverflowError) as error:
            raise UnboundError(f"{self.name} cannot be computed: {error}") from None

    def instruction(self, node: ast.expr) -> Instruction:
        name = _name(node)
        found = next((i for i in self.match.variant.module.entry if i.name == name), None)
        if found is None:
            raise PassError(
                f"binding {self.name!r} needs an instruction, not {ast.unparse(node)!r}",
                hint="bind a name that the pattern gives an instruction",
            )
        return found

    def constant(self, node: ast.expr) -> BoundValue:
        found = self.match.constants.get(self.instruction(node))
        if found is None:
            raise UnboundError(f"{self.name} is not known, for {_name(node)} is not one number in this match")
        return found.item()

    def value(self, node: ast.expr, default: ast.expr) -> Any:
        return self.constant(node) if self.matched(node) else self.of(default)

    def matched(self, node: ast.expr) -> bool:
        instruction, match = self.instruction(node), self.match
        return instruction in match.values or instruction in match.constants or instruction in match.choices

    def program_dimensions(self, node: ast.expr, dimension: ast.expr) -> list[tuple[int, int]]:
        """The numbers and sizes of the program's dimensions for one of the pattern's."""
        instruction = self.instruction(node)
        if instruction not in self.match.values:
            raise UnboundError(f"{self.name} is not known, for {_name(node)} is not part of this match")
        program, dims = self.match.values[instruction]
        return [(d, program.shape.dims[d]) for d in lookup(dims or (), self.of(dimension))]

    def size(self, node: ast.expr, dimension: ast.expr) -> int:
        return math.prod(size for _, size in self.program_dimensions(node, dimension))

    def outermost(self, node: ast.expr, dimension: ast.expr) -> int:
        return next((size for _, size in self.program_dimensions(node, dimension)), 1)

    def axis(self, node: ast.expr, dimension: ast.expr) -> int:
        return min((d for d, _ in self.program_dimensions(node, dimension)), default=-1)

    def has(self, node: ast.expr, dimension: ast.expr) -> bool:
        return bool(self.program_dimensions(node, dimension))

    def letters(self, node: ast.expr, names: ast.expr) -> str:
        if not self.matched(node):
            return ""
        return "".join(name for k, name in enumerate(self.of(names)) if self.program_dimensions(node, ast.Constant(k)))

    def dtype(self, node: ast.expr) -> str:
        instruction = self.instruction(node)
        if instruction not in self.match.values:
            raise UnboundError(f"{self.name} is not known, for {_name(node)} is not part of this match")
        return self.match.values[instruction][0].shape.dtype.name

    def which(self, node: ast.expr) -> str:
        chosen = self.match.choices.get(self.instruction(node))
        if chosen is None:
            raise UnboundError(f"{self.name} is not known, for {_name(node)} is not part of this match")
        return chosen.name

    def attribute(self, node: ast.expr, name: ast.expr) -> int | str:
        instruction = self.instruction(node)
        if instruction not in self.match.values:
            raise UnboundError(f"{self.name} is not known, for {_name(node)} is not part of this match")
        found = self.match.values[instruction][0][self.of(name)]
        return found if isinstance(found, int) else str(found)

    def sqrt(self, node: ast.expr) -> float:
        value = self.of(node)
        if value < 0:
            raise UnboundError(f"{self.name} needs the square root of {value}")
        return math.sqrt(value)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "value": _Evaluation.value,
    "size": _Evaluation.size,
    "outermost": _Evaluation.outermost,
    "axis": _Evaluation.axis,
    "has": _Evaluation.has,
    "letters": _Evaluation.letters,
    "dtype": _Evaluation.dtype,
    "matched": _Evaluation.matched,
    "which": _Evaluation.which,
    "attribute": _Evaluation.attribute,
    "sqrt": _Evaluation.sqrt,
}
