"""The arguments and results of an exported program by name, as C and Python see them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xloom.codegen.buffer_values import leaf_shapes
from xloom.codegen.buffers.input_output_aliases import aliases
from xloom.errors import LoweringError
from xloom.hlo.dtype import DType, dtype
from xloom.hlo.module import Module

_KEYWORDS = frozenset({
    "alignas", "alignof", "and", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const", "continue",
    "default", "delete", "do", "double", "else", "enum", "explicit", "export", "extern", "false", "float", "for",
    "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "not", "operator", "or", "private",
    "protected", "public", "register", "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch",
    "template", "this", "throw", "true", "try", "typedef", "typename", "union", "unsigned", "using", "virtual", "void",
    "volatile", "while", "xor",
})  # fmt: skip
"""Of C and C++."""


@dataclass(frozen=True)
class Array:
    """An argument or a result: row-major, its elements in the host's order of bytes."""

    name: str
    """A C identifier."""
    dtype: DType
    dims: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Its size; elements of less than a byte take one each."""
        return self.dtype[self.dims].nbytes

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclass(frozen=True)
class Interface:
    """What an exported program takes and gives."""

    name: str
    """A C identifier, with which the names of its functions begin."""
    arguments: tuple[Array, ...]
    results: tuple[Array, ...]
    aliases: tuple[tuple[int, int], ...] = ()
    """Results that may lie where an argument does, by number."""

    def to_json(self) -> str:
        """The interface as text, which the program has in it."""
        rows = [[[a.name, a.dtype.name, a.dims] for a in side] for side in (self.arguments, self.results)]
        return json.dumps([self.name, *rows, self.aliases])

    @staticmethod
    def from_json(text: str) -> Interface:
        """Reads what `to_json` wrote."""
        name, arguments, results, pairs = json.loads(text)
        taken, given = (tuple(Array(n, dtype(t), tuple(dims)) for n, t, dims in side) for side in (arguments, results))
        return Interface(name, taken, given, tuple((result, argument) for result, argument in pairs))


def interface_of(module: Module, name: str, arguments: Sequence[str], results: Sequence[str]) -> Interface:
    """A module's interface; names are made C identifiers, each another one.

    Without names arguments are called as the parameters are, leaves of tuples by number, and results `result`.
    Raises LoweringError for tokens, which C has no argument for.
    """
    given: list[tuple[str, DType, tuple[int, ...]]] = []
    for parameter in module.entry.parameters:
        leaves = leaf_shapes(parameter.shape)
        names = [parameter.name] if parameter.shape.is_array else [f"{parameter.name}_{k}" for k in range(len(leaves))]
        given += [(n, leaf.dtype, leaf.dims) for n, leaf in zip(names, leaves, strict=True)]
    made = leaf_shapes(module.entry.root.shape)
    if not made:
        raise LoweringError("a program without results", where=module.name, hint="give it an array as its root")
    arguments = arguments or [n for n, _, _ in given]
    results = results or (["result"] if len(made) == 1 else [f"result_{k}" for k in range(len(made))])
    return Interface(
        identifier(name),
        tuple(Array(n, t, dims) for n, (_, t, dims) in zip(_identifiers(arguments), given, strict=True)),
        tuple(Array(n, s.dtype, s.dims) for n, s in zip(_identifiers(results), made, strict=True)),
        tuple((alias.result, alias.argument) for alias in aliases(module)),
    )


def identifier(name: str) -> str:
    """A C identifier that is like `name`."""
    text = re.sub(r"_*[^A-Za-z0-9_]+", "_", name).strip("_") or "program"
    return f"_{text}" if text[0].isdigit() or text in _KEYWORDS else text


def _identifiers(names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        plain = unique = identifier(name)
        number = 1
        while unique in found:
            unique = f"{plain}_{number}"
            number += 1
        found.append(unique)
    return found
