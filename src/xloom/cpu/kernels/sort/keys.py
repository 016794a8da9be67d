"""Comparators that compare by keys: `key(a) < key(b)`, and for equal keys by the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
from llvmlite import ir

from xloom.hlo.computation import Computation
from xloom.hlo.dtype import DType, Kind
from xloom.hlo.instruction import Instruction
from xloom.llvm.scalar.elementwise import total_order_key
from xloom.llvm.scalar.rules import RULES
from xloom.llvm.scalar.scalar_computation import evaluated
from xloom.llvm.types import I8, Value, constant, register_type


@dataclass(frozen=True)
class Key:
    """An expression over one element of each operand, and how its values order."""

    expression: Instruction
    descending: bool
    total_order: bool
    """-NaN below all, -0 below +0; else both zeros are equal, and NaN is undefined."""

    @property
    def dtype(self) -> DType:
        """The type of the expression."""
        return self.expression.shape.dtype

    @property
    def bits(self) -> int:
        """The width of the unsigned integer that stands for the key."""
        if self.dtype.is_float:
            return _float_bits(self.dtype) - _zero_bits(self.dtype)
        return max(8, self.dtype.bits)

    @property
    def operand(self) -> int:
        """Which operand it is an element of, perhaps as `canonical_nan` says."""
        expression = self.expression
        while expression.opcode == "select":
            expression = expression._operands[2]
        return expression["parameter_number"] // 2

    @property
    def operands(self) -> set[int]:
        """The operands that it is of elements of."""
        found, stack = set[int](), [self.expression]
        while stack:
            expression = stack.pop()
            stack.extend(expression._operands)
            if expression.opcode == "parameter":
                found.add(expression["parameter_number"] // 2)
        return found

    def integer(self, b: ir.IRBuilder, elements: Sequence[Value]) -> ir.Value:
        """An unsigned integer of `bits` that orders as the key does."""
        return key_integer(b, _value(b, self.expression, elements, {}), self.dtype, self.descending, self.total_order)


def key_integer(b: ir.IRBuilder, value: Value, dtype: DType, descending: bool, total_order: bool) -> ir.Value:
    """An unsigned integer that orders as the values of a real type do."""
    if dtype.is_float:
        if not total_order:
            value = b.fadd(value, value.type(0.0))  # makes -0 +0
        key = total_order_key(b, value)
        key = b.xor(key, key.type(1 << (key.type.width - 1)))
        if unused := _zero_bits(dtype):
            key = b.trunc(b.lshr(key, key.type(unused)), ir.IntType(key.type.width - unused))
    elif dtype.kind is Kind.PRED:
        key = b.zext(value, I8)
    else:
        sign = 1 << (value.type.width - 1) if dtype.kind is Kind.SIGNED else 0
        key = b.xor(value, value.type(sign))
    return b.not_(key) if descending else key


def _float_bits(dtype: DType) -> int:
    return 64 if str(register_type(dtype)) == "double" else 32


def _zero_bits(dtype: DType) -> int:
    """How many low bits of a float in registers are never used: narrow types have a short mantissa."""
    return 0 if dtype.bits >= 32 else 23 - max(1, int(ml_dtypes.finfo(dtype.numpy).nmant))


def plain_keys(comparator: Computation) -> list[Key] | None:
    """The keys, the first one decisive; None for other comparators."""
    keys = _lexicographic(comparator.root)
    return keys if keys and all(not k.dtype.is_complex and _is_plain(k.expression) for k in keys) else None


def _lexicographic(root: Instruction) -> list[Key] | None:
    operands = root._operands
    if root.opcode == "compare":
        key = _key(root)
        return key and [key]
    if root.opcode == "select":
        equal, rest, first = operands
        return _chain(first, equal, rest)
    if root.opcode == "or":
        for first, second in (operands, operands[::-1]):
            if second.opcode == "and":
                for equal, rest in (second._operands, second._operands[::-1]):
                    if keys := _chain(first, equal, rest):
                        return keys
    return None


def _chain(first: Instruction, equal: Instruction, rest: Instruction) -> list[Key] | None:
    """`first`, or where its two sides are equal, `rest`."""
    key = _key(first)
    if key is None or equal.opcode != "compare" or equal["direction"] != "EQ":
        return None
    same = {*map(id, equal._operands)} == {*map(id, first._operands)}
    if not same or (key.dtype.is_float and equal.attrs.get("type") != first.attrs.get("type")):
        return None
    keys = _lexicographic(rest)
    return [key, *keys] if keys else None


def _key(compare: Instruction) -> Key | None:
    if compare.opcode != "compare" or compare["direction"] not in ("LT", "GT"):
        return None
    left, right = compare._operands
    sides: set[int] = set()
    if not _mirrored(left, right, sides) or len(sides) != 1:
        return None
    descending = (compare["direction"] == "GT") != (sides == {1})
    return Key(left, descending, compare.attrs.get("type") == "TOTALORDER")


def _mirrored(left: Instruction, right: Instruction, sides: set[int]) -> bool:
    """True when `right` is of the one element what `left` is of the other; `sides` gets which one `left` is of."""
    if left.opcode == "parameter" and right.opcode == "parameter":
        a, b = left["parameter_number"], right["parameter_number"]
        sides.add(a % 2)
        return a // 2 == b // 2 and a != b
    if left.opcode == "constant":
        return left is right or (right.opcode == "constant" and repr(left.literal) == repr(right.literal))
    return (
        left.opcode == right.opcode
        and left.shape == right.shape
        and left.attrs == right.attrs
        and not left.called_computations
        and len(left._operands) == len(right._operands)
        and all(_mirrored(x, y, sides) for x, y in zip(left._operands, right._operands, strict=True))
    )


def _is_plain(i: Instruction) -> bool:
    if i.opcode in ("parameter", "constant"):
        return True
    return i.opcode in RULES and i.shape.is_scalar and all(_is_plain(o) for o in i._operands)


def _value(b: ir.IRBuilder, i: Instruction, elements: Sequence[Value], known: dict[Instruction, Value]) -> Value:
    if i.opcode == "parameter":
        return elements[i["parameter_number"] // 2]
    if i.opcode == "constant":
        return constant(i.literal.item(), i.shape.dtype)
    if i not in known:
        known[i] = evaluated(b, i, *(_value(b, o, elements, known) for o in i._operands))
    return known[i]


def canonical_nan(expression: Instruction) -> int | None:
    """Where it is an element but for -0, which it makes 0, and for NaNs, which it makes one: the bits of that one."""
    if expression.opcode != "select":
        return None
    is_nan, nan, rest = expression._operands
    if rest.opcode != "select" or nan.opcode != "constant":
        return None
    is_zero, zero, element = rest._operands
    if element.opcode != "parameter" or not _compares(is_nan, "NE", element, element):
        return None
    if zero.opcode != "constant" or not _compares(is_zero, "EQ", element, zero) or _bits(zero) != 0:
        return None
    return _bits(nan) if nan.literal.item() != nan.literal.item() else None


def _compares(i: Instruction, direction: str, left: Instruction, right: Instruction) -> bool:
    found = i.opcode == "compare" and i["direction"] == direction and i.attrs.get("type") != "TOTALORDER"
    return found and i._operands[0] is left and i._operands[1] is right


def _bits(constant: Instruction) -> int:
    return int.from_bytes(constant.literal.value.tobytes(), "little")
