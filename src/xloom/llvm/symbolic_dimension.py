"""Integers that a kernel reads when it runs, so that the same machine code does for other shapes.

A rule that is given a `SymbolicDimension` in place of an `int` computes with it as before. What it computes is written
down; what it decides (a comparison, a size used as a number) is written down as a condition. The code that comes out
serves all shapes that meet the conditions: it loads what it needs of the computed numbers from a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from llvmlite import ir

from xloom.llvm.dimension_formula import COMPARISONS, COMPUTE, DimensionFormula, FormulaWriter

_SAME_RIGHT, _SAME_LEFT = {("+", 0), ("-", 0), ("*", 1), ("//", 1)}, {("+", 0), ("*", 1)}
"""What changes nothing."""


class SymbolicDimensions:
    """The sizes of one kernel: what was computed of them, decided by them, and is loaded of them."""

    def __init__(self, values: Sequence[int]):
        self._writer = FormulaWriter(len(values))
        self._computed: dict[tuple[str, int, int], SymbolicDimension] = {}
        self._decided: set[tuple[str, int, int]] = set()
        self._slots: dict[int, int] = {}
        self._table: list[int] = []
        self.loaded: list[int] = []
        """The table of this shape."""
        self.load: Callable[[int], ir.Value] = _outside
        """Gives the table's number at an index, in the function that is being emitted."""
        self.symbols: list[Any] = [SymbolicDimension(self, k, value) for k, value in enumerate(values)]

    def compute(
        self, operation: str, x: int | SymbolicDimension, y: int | SymbolicDimension
    ) -> int | SymbolicDimension:
        """A number made of two, at least one of which is a `SymbolicDimension`."""
        if isinstance(y, int) and (operation, y) in _SAME_RIGHT:
            return x
        if isinstance(x, int) and (operation, x) in _SAME_LEFT:
            return y
        if operation == "*" and any(isinstance(n, int) and n == 0 for n in (x, y)):
            return 0
        key = operation, self._number(x), self._number(y)
        found = self._computed.get(key)
        if found is None:
            found = SymbolicDimension(self, self._writer.compute(*key), COMPUTE[operation](_value(x), _value(y)))
            self._computed[key] = found
        return found

    def decide(self, comparison: str, x: SymbolicDimension, y: int | SymbolicDimension) -> bool:
        """What a comparison says, which becomes a condition."""
        result = COMPARISONS[comparison](x.value, _value(y))
        number = self._number(y)
        if x.number != number:
            self._require(comparison, x.number, number, result)
        return result

    def known(self, size: SymbolicDimension) -> int:
        """The number itself, which becomes a condition."""
        self._require("==", size.number, self._number(size.value), True)
        return size.value

    def slot(self, size: SymbolicDimension) -> int:
        """Where a number is in the table."""
        if size.number not in self._slots:
            self._slots[size.number] = self.row([size])
        return self._slots[size.number]

    def read_from(self, b: ir.IRBuilder, table: ir.Value) -> None:
        """From now on numbers are loaded of `table`, where the function of `b` begins."""
        self.load = lru_cache(maxsize=None)(partial(_entry, b, table))

    def row(self, numbers: Sequence[int | SymbolicDimension]) -> int:
        """Puts numbers side by side into the table: where the first one is."""
        begin = len(self._table)
        self._table += map(self._number, numbers)
        self.loaded += map(_value, numbers)
        return begin

    def formula(self, *results: Sequence[int | SymbolicDimension]) -> DimensionFormula:
        """What gives the table and `results` for other sizes, where it serves them."""
        return self._writer.formula([self._table, *([self._number(x) for x in group] for group in results)])

    def _number(self, x: int | SymbolicDimension) -> int:
        return x.number if isinstance(x, SymbolicDimension) else self._writer.constant(x)

    def _require(self, comparison: str, x: int, y: int, result: bool) -> None:
        if (comparison, x, y) not in self._decided:
            self._decided.add((comparison, x, y))
            self._writer.require(comparison, x, y, result)


def _entry(b: ir.IRBuilder, table: ir.Value, number: int) -> ir.Value:
    """An entry of a table of numbers."""
    kind = ir.IntType(64)
    with b.goto_block(b.function.entry_basic_block):
        value = b.load(b.gep(table, [kind(number)], inbounds=True, source_etype=kind), typ=kind)
    value.set_metadata("invariant.load", b.module.add_metadata([]))
    return value


class SymbolicDimension:
    """An integer that is a numbered value of a formula; as a number itself only by a condition."""

    __slots__ = ("_sizes", "number", "value")

    def __init__(self, sizes: SymbolicDimensions, number: int, value: int):
        self._sizes = sizes
        self.number = number
        self.value = value

    def loaded(self) -> ir.Value:
        """The number when the kernel runs (i64)."""
        return self._sizes.load(self._sizes.slot(self))

    def __index__(self) -> int:
        return self._sizes.known(self)

    def __int__(self) -> int:
        return self._sizes.known(self)

    def __str__(self) -> str:
        return str(self._sizes.known(self))

    def __bool__(self) -> bool:
        return self._sizes.decide("!=", self, 0)

    __hash__ = object.__hash__  # by what it is, whose value may change

    def __eq__(self, other: object) -> bool:
        return self._sizes.decide("==", self, other) if isinstance(other, int | SymbolicDimension) else NotImplemented

    def __ne__(self, other: object) -> bool:
        return self._sizes.decide("!=", self, other) if isinstance(other, int | SymbolicDimension) else NotImplemented

    def __lt__(self, other: int | SymbolicDimension) -> bool:
        return self._sizes.decide("<", self, other)

    def __le__(self, other: int | SymbolicDimension) -> bool:
        return self._sizes.decide("<=", self, other)

    def __gt__(self, other: int | SymbolicDimension) -> bool:
        return self._sizes.decide(">", self, other)

    def __ge__(self, other: int | SymbolicDimension) -> bool:
        return self._sizes.decide(">=", self, other)

    def __add__(self, other: int | SymbolicDimension) -> Any:
        return self._sizes.compute("+", self, other)

    def __radd__(self, other: int) -> Any:
        return self._sizes.compute("+", other, self)

    def __sub__(self, other: int | SymbolicDimension) -> Any:
        return self._sizes.compute("-", self, other)

    def __rsub__(self, other: int) -> Any:
        return self._sizes.compute("-", other, self)

    def __mul__(self, other: int | SymbolicDimension) -> Any:
        return self._sizes.compute("*", self, other)

    def __rmul__(self, other: int) -> Any:
        return self._sizes.compute("*", other, self)

    def __floordiv__(self, other: int | SymbolicDimension) -> Any:
        return self._sizes.compute("//", self, other)

    def __rfloordiv__(self, other: int) -> Any:
        return self._sizes.compute("//", other, self)

    def __mod__(self, other: int | SymbolicDimension) -> Any:
        return self._sizes.compute("%", self, other)

    def __rmod__(self, other: int) -> Any:
        return self._sizes.compute("%", other, self)

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __neg__(self) -> Any:
        return self._sizes.compute("-", 0, self)


def least(x: Any, y: Any) -> Any:
    """The lesser of two numbers; of sizes, without a decision."""
    return _of_two("min", x, y)


def greatest(x: Any, y: Any) -> Any:
    """The greater of two numbers; of sizes, without a decision."""
    return _of_two("max", x, y)


def if_less(x: Any, y: Any, this: Any, other: Any) -> Any:
    """`this` where x is less than y, else `other`; of sizes, without a decision."""
    is_less = least(1, greatest(0, y - x))
    return other + is_less * (this - other)


def divides(step: int, x: Any) -> bool:
    """True when `x` is known to be a multiple of `step`; not of sizes, for it is no use to have code for either."""
    return step == 1 or (isinstance(x, int) and x % step == 0)


def number(x: Any) -> int:
    """The value of an `int` or a `SymbolicDimension`, without a condition: for what no machine code depends on."""
    return _value(x)


def _of_two(operation: str, x: Any, y: Any) -> Any:
    for size in (x, y):
        if isinstance(size, SymbolicDimension):
            return size._sizes.compute(operation, x, y)
    return COMPUTE[operation](x, y)


def _value(x: int | SymbolicDimension) -> int:
    return x.value if isinstance(x, SymbolicDimension) else x


def _outside(slot: int) -> ir.Value:
    raise AssertionError("a size is loaded in a function of its kernel")
