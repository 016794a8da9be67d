"""Scalars in registers with Python's operators, so that formulas in LLVM IR read as formulas."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from xloom.llvm.intrinsics import intrinsic, overloaded


@dataclass(frozen=True)
class Format:
    """An IEEE binary format, and the integers that hold its bits."""

    type: ir.Type
    bits_type: ir.IntType
    mantissa: int
    bias: int

    @property
    def width(self) -> int:
        """Bits of a number of the format."""
        return self.bits_type.width

    @property
    def smallest_normal(self) -> float:
        """The least positive number that has all its digits."""
        return 2.0 ** (1 - self.bias)

    def bits_of(self, number: float) -> int:
        """The bits of a number."""
        layout = "fI" if self.width == 32 else "dQ"
        return struct.unpack(layout[1], struct.pack(layout[0], number))[0]


F32 = Format(ir.FloatType(), ir.IntType(32), 23, 127)
F64 = Format(ir.DoubleType(), ir.IntType(64), 52, 1023)
_FORMATS = {str(kind): f for f in (F32, F64) for kind in (f.type, f.bits_type)}


class Scalar:
    """A float, integer or i1 in registers. Numbers beside it become constants of its type; comparisons are ordered."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: ir.IRBuilder, value: ir.Value):
        self.builder: Any = builder  # its methods have no types of their own
        self.value: Any = value

    @property
    def format(self) -> Format:
        """The format of a float, or of the float whose bits an integer holds."""
        return _FORMATS[str(self.value.type)]

    @property
    def is_integer(self) -> bool:
        """True of integers and of truth values."""
        return isinstance(self.value.type, ir.IntType)

    def constant(self, number: float | int) -> Scalar:
        """The number, in the type of this scalar."""
        return Scalar(self.builder, ir.Constant(self.value.type, int(number) if self.is_integer else float(number)))

    def _operand(self, other: Scalar | float | int) -> ir.Value:
        return other.value if isinstance(other, Scalar) else self.constant(other).value

    def _binary(self, for_float: str, for_integer: str, other: Scalar | float | int) -> Scalar:
        method = getattr(self.builder, for_integer if self.is_integer else for_float)
        return Scalar(self.builder, method(self.value, self._operand(other)))

    def __add__(self, other: Scalar | float | int) -> Scalar:
        return self._binary("fadd", "add", other)

    def __sub__(self, other: Scalar | float | int) -> Scalar:
        return self._binary("fsub", "sub", other)

    def __mul__(self, other: Scalar | float | int) -> Scalar:
        return self._binary("fmul", "mul", other)

    def __truediv__(self, other: Scalar | float | int) -> Scalar:
        return Scalar(self.builder, self.builder.fdiv(self.value, self._operand(other)))

    def __rsub__(self, other: float | int) -> Scalar:
        return self.constant(other) - self

    def __rtruediv__(self, other: float | int) -> Scalar:
        return self.constant(other) / self

    def __neg__(self) -> Scalar:
        return Scalar(self.builder, self.builder.fneg(self.value))

    def __and__(self, other: Scalar | int) -> Scalar:
        return Scalar(self.builder, self.builder.and_(self.value, self._operand(other)))

    def __or__(self, other: Scalar | int) -> Scalar:
        return Scalar(self.builder, self.builder.or_(self.value, self._operand(other)))

    def __xor__(self, other: Scalar | int) -> Scalar:
        return Scalar(self.builder, self.builder.xor(self.value, self._operand(other)))

    def __invert__(self) -> Scalar:
        return Scalar(self.builder, self.builder.not_(self.value))

    def __lshift__(self, count: int) -> Scalar:
        return Scalar(self.builder, self.builder.shl(self.value, self._operand(count)))

    def __rshift__(self, count: int) -> Scalar:
        """Unsigned."""
        return Scalar(self.builder, self.builder.lshr(self.value, self._operand(count)))

    def _compare(self, operator: str, other: Scalar | float | int) -> Scalar:
        compare = self.builder.icmp_signed if self.is_integer else self.builder.fcmp_ordered
        return Scalar(self.builder, compare(operator, self.value, self._operand(other)))

    def __lt__(self, other: Scalar | float | int) -> Scalar:
        return self._compare("<", other)

    def __gt__(self, other: Scalar | float | int) -> Scalar:
        return self._compare(">", other)

    def __ge__(self, other: Scalar | float | int) -> Scalar:
        return self._compare(">=", other)

    def equals(self, other: Scalar | float | int) -> Scalar:
        """Whether the values are the same; a NaN equals nothing."""
        return self._compare("==", other)

    def abs(self) -> Scalar:
        """The magnitude: the sign bit cleared, of NaN as well."""
        return self._intrinsic("fabs")

    def sqrt(self) -> Scalar:
        """The square root, rounded correctly."""
        return self._intrinsic("sqrt")

    def rint(self) -> Scalar:
        """The nearest integral value, the even one of two."""
        return self._intrinsic("rint")

    def nearest_integer(self) -> Scalar:
        """As a number of 32 bits, which it must fit; of two the even one."""
        kind = ir.IntType(32)
        return Scalar(self.builder, overloaded(self.builder, "lrint", [kind, self.value.type], kind, [self.value]))

    def copysign(self, sign: Scalar) -> Scalar:
        """This magnitude with the sign of another."""
        return self._intrinsic("copysign", sign)

    def times_power_of_two(self, exponent: Scalar) -> Scalar:
        """This number times 2^n, rounded once; an n of 64 bits must fit 32."""
        b, n = self.builder, exponent.value
        n = b.trunc(n, ir.IntType(32)) if n.type.width > 32 else n
        return Scalar(b, overloaded(b, "ldexp", [self.value.type, n.type], self.value.type, [self.value, n]))

    def _intrinsic(self, name: str, *others: Scalar) -> Scalar:
        return Scalar(self.builder, intrinsic(self.builder, name, self.value, *(o.value for o in others)))

    def bits(self) -> Scalar:
        """The bits of a float."""
        return Scalar(self.builder, self.builder.bitcast(self.value, self.format.bits_type))

    def as_float(self) -> Scalar:
        """The float that has these bits."""
        return Scalar(self.builder, self.builder.bitcast(self.value, self.format.type))

    def to(self, form: Format) -> Scalar:
        """The nearest number of a format."""
        if form is self.format:
            return self
        convert = self.builder.fpext if form is F64 else self.builder.fptrunc
        return Scalar(self.builder, convert(self.value, form.type))


def fma(x: Scalar, y: Scalar | float, z: Scalar | float) -> Scalar:
    """x * y + z, rounded once."""
    factor = y if isinstance(y, Scalar) else x.constant(y)
    addend = z if isinstance(z, Scalar) else x.constant(z)
    return x._intrinsic("fma", factor, addend)


def select(condition: Scalar, yes: Scalar | float, no: Scalar | float) -> Scalar:
    """`yes` where the condition holds, else `no`; one of them must be a scalar."""
    model = yes if isinstance(yes, Scalar) else no
    assert isinstance(model, Scalar)
    b = condition.builder
    return Scalar(b, b.select(condition.value, model._operand(yes), model._operand(no)))


def clamp(x: Scalar, low: float | None, high: float | None) -> Scalar:
    """x between two bounds; a NaN stays."""
    if low is not None:
        x = select(x < low, low, x)
    return x if high is None else select(x > high, high, x)


def polynomial(x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """c0 + c1 x + c2 x^2 ..., by Horner's rule in x^2 over pairs of terms, which halves the chain of operations."""
    square = x * x
    total = None
    for k in reversed(range(0, len(coefficients), 2)):
        pair = coefficients[k : k + 2]
        term = fma(x, pair[1], pair[0]) if len(pair) == 2 else x.constant(pair[0])
        total = term if total is None else fma(total, square, term)
    assert total is not None
    return total


def emitter(formula: Callable[..., Scalar]) -> Callable[..., ir.Value]:
    """A formula over scalars as a function of a builder and SSA values."""

    @functools.wraps(formula)
    def emit(b: ir.IRBuilder, *values: ir.Value) -> ir.Value:
        return formula(*(Scalar(b, v) for v in values)).value

    return emit


def in_double(formula: Callable[..., Scalar], coefficients: dict[Format, Sequence[float]], *args: Scalar) -> Scalar:
    """`formula(coefficients, *args)` in f64; f32 is rounded once, so its polynomial may be shorter."""
    form = args[0].format
    return formula(coefficients[form], *(a.to(F64) for a in args)).to(form)
