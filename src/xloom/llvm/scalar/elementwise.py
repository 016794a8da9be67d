"""Elementwise operators on pred, integers and real floats; complex numbers are handed to `complex_math`."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from xloom.hlo.dtype import DType, Kind
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.math import call as real_function
from xloom.llvm.scalar import complex_math, integer_division
from xloom.llvm.scalar.conversion import rounded, wrapped
from xloom.llvm.scalar.operator import Operator
from xloom.llvm.scalar.ordered_bits import ordered_bits
from xloom.llvm.scalar.rules import emits
from xloom.llvm.types import I1, I8, Complex, Value, constant

Builder = ir.IRBuilder


def operand_type(operator: Operator) -> DType:
    """The element type of the first operand."""
    return operator.operand_types[0]


# -- one operand ---------------------------------------------------------------------------------------------------


def _unary(opcode: str) -> None:
    @emits(opcode, rounded=False)
    def rule(b: Builder, operator: Operator, x: Value) -> Value:
        dtype = operand_type(operator)
        if dtype.is_complex:
            return complex_math.UNARY[opcode](b, x)
        return real_function(b, opcode, x, is_narrow=dtype.bits <= 16)


for _opcode in [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atanh",
    "cbrt",
    "cosine",
    "cosh",
    "erf",
    "exponential",
    "exponential-minus-one",
    "log",
    "logistic",
    "rsqrt",
    "sine",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]:
    _unary(_opcode)


@emits("log-plus-one", "log-plus-one-of-fraction", rounded=False)
def log_plus_one(b: Builder, operator: Operator, x: Value) -> Value:
    """log(1 + x), accurate near 0."""
    if isinstance(x, Complex):
        return complex_math.UNARY["log-plus-one"](b, x)
    return real_function(b, operator.opcode, x)


_ROUNDING = {
    "ceil": "ceil",
    "floor": "floor",
    "round-nearest-even": "rint",
    "round-nearest-afz": "round",
}


@emits(*_ROUNDING, rounded=False)
def rounding(b: Builder, operator: Operator, x: Value) -> Value:
    """The operand rounded to an integral value of its type, as the opcode says."""
    return intrinsic(b, _ROUNDING[operator.opcode], x)


@emits("abs")
def absolute(b: Builder, operator: Operator, x: Value) -> Value:
    """|x|; of a complex number its modulus."""
    dtype = operand_type(operator)
    if dtype.is_complex:
        return complex_math.modulus(b, x)
    if dtype.is_float:
        return intrinsic(b, "fabs", x)
    if dtype.kind is not Kind.SIGNED:
        return x
    return wrapped(b, b.select(b.icmp_signed("<", x, x.type(0)), b.neg(x), x), dtype)


@emits("negate")
def negate(b: Builder, operator: Operator, x: Value) -> Value:
    """-x; integers wrap."""
    dtype = operand_type(operator)
    if dtype.is_complex:
        return Complex(b.fneg(x.real), b.fneg(x.imag))
    if dtype.name == "f8e8m0fnu" or dtype.name.endswith("fnuz"):
        return rounded(b, b.fneg(x), dtype)  # no sign, or no -0
    return b.fneg(x) if dtype.is_float else wrapped(b, b.neg(x), dtype)


@emits("sign")
def sign(b: Builder, operator: Operator, x: Value) -> Value:
    """-1, 0, 1, keeping -0 and NaN; x / |x| of a complex number."""
    dtype = operand_type(operator)
    if dtype.is_complex:
        return complex_math.sign(b, x)
    zero = constant(0, dtype)
    if dtype.is_float:
        is_zero = b.fcmp_ordered("oeq", x, zero)  # as denormals are where they are flushed
        size = b.select(is_zero, zero, constant(1, dtype))
        return b.select(b.fcmp_unordered("uno", x, zero), x, intrinsic(b, "copysign", size, x))
    positive = b.zext(b.icmp_signed(">", x, zero), x.type)
    if dtype.kind is not Kind.SIGNED:
        return b.zext(b.icmp_unsigned("!=", x, zero), x.type)
    return b.sub(positive, b.zext(b.icmp_signed("<", x, zero), x.type))


@emits("is-finite")
def is_finite(b: Builder, operator: Operator, x: Value) -> Value:
    """Whether a float is neither infinite nor NaN (i1)."""
    dtype = operand_type(operator)
    if dtype.is_complex:
        return b.and_(_finite(b, x.real), _finite(b, x.imag))
    return _finite(b, x) if dtype.is_float else I1(1)


def _finite(b: Builder, x: ir.Value) -> ir.Value:
    return b.fcmp_ordered("<", intrinsic(b, "fabs", x), ir.Constant(x.type, float("inf")))


@emits("real", "imag")
def parts(b: Builder, operator: Operator, x: Value) -> Value:
    """The part; of a real number itself, or 0."""
    if isinstance(x, Complex):
        return x.real if operator.opcode == "real" else x.imag
    return x if operator.opcode == "real" else constant(0, operand_type(operator))


@emits("not")
def not_(b: Builder, operator: Operator, x: Value) -> Value:
    """Bitwise complement; logical on pred."""
    return wrapped(b, b.not_(x), operand_type(operator))


@emits("popcnt", "count-leading-zeros")
def count_bits(b: Builder, operator: Operator, x: Value) -> Value:
    """How many one bits, or zero bits above the highest one."""
    dtype = operand_type(operator)
    width = 1 if dtype.kind is Kind.PRED else dtype.bits
    if width < 8:
        x = b.zext(x, I8) if x.type.width < 8 else b.and_(x, I8((1 << width) - 1))
    if operator.opcode == "popcnt":
        count = intrinsic(b, "ctpop", x)
    else:
        count = b.sub(intrinsic(b, "ctlz", x, I1(0)), x.type(x.type.width - width))
    return wrapped(b, count, dtype) if dtype.is_integer else b.icmp_unsigned("!=", count, count.type(0))


@emits("copy")
def copy(b: Builder, operator: Operator, x: Value) -> Value:
    """The operand's value."""
    return x


# -- two operands --------------------------------------------------------------------------------------------------

Function = Callable[[Builder, DType, ir.Value, ir.Value], ir.Value]
ElementRule = Callable[[Builder, Operator, Value, Value], Value]


def _binary(opcode: str, function: Function) -> ElementRule:
    def rule(b: Builder, operator: Operator, x: Value, y: Value) -> Value:
        dtype = operand_type(operator)
        if dtype.is_complex:
            return complex_math.BINARY[opcode](b, x, y)
        out = function(b, dtype, x, y)
        return out if dtype.is_float else wrapped(b, out, dtype)

    return rule


def _division(opcode: str, function: Function, of_integers: integer_division.Rule) -> ElementRule:
    others = _binary(opcode, function)

    def rule(b: Builder, operator: Operator, x: Value, y: Value) -> Value:
        dtype = operand_type(operator)
        if not dtype.is_integer:
            return others(b, operator, x, y)
        return wrapped(b, of_integers(b, dtype, x, y, not operator.is_scalar), dtype)

    return rule


def _arithmetic(for_float: str, for_integer: str, for_pred: str) -> Function:
    """Sums and products, of which a processor does one of each at once, with one rounding.

    A sum of two products rounds both, so that it is the same with its operands exchanged. A difference rounds a product
    first, so that it is 0 where its operands are equal: of y = x * c, the largest of y - max(y) is 0.
    """

    def function(b: Builder, dtype: DType, x: ir.Value, y: ir.Value) -> ir.Value:
        if not dtype.is_float:
            return getattr(b, for_pred if dtype.kind is Kind.PRED else for_integer)(x, y)
        alone = for_float == "fsub" or (for_float == "fadd" and _is_product(x) and _is_product(y))
        return getattr(b, for_float)(x, y, flags=[] if alone else ["contract"])

    return function


def _is_product(x: ir.Value) -> bool:
    return isinstance(x, ir.Instruction) and x.opname == "fmul"


def _extremum(name: str) -> Function:
    def function(b: Builder, dtype: DType, x: ir.Value, y: ir.Value) -> ir.Value:
        if dtype.is_float:
            return intrinsic(b, name, x, y)
        if dtype.kind is Kind.PRED:
            return b.or_(x, y) if name == "maximum" else b.and_(x, y)
        short = f"{'s' if dtype.kind is Kind.SIGNED else 'u'}{name[:3]}"
        return intrinsic(b, short, x, y)

    return function


def _power(b: Builder, dtype: DType, x: ir.Value, y: ir.Value) -> ir.Value:
    if dtype.is_float:
        return real_function(b, "power", x, y)
    signed = dtype.kind is Kind.SIGNED
    if dtype.kind is Kind.PRED:
        return b.or_(x, b.not_(y))
    out = b.call(
        _integer_power(b.module, x.type),
        [x, b.select(b.icmp_signed("<", y, y.type(0)), y.type(0), y)] if signed else [x, y],
    )
    if not signed:
        return out
    odd = b.icmp_unsigned("!=", b.and_(y, y.type(1)), y.type(0))
    inverse = b.select(
        b.icmp_signed("==", x, x.type(1)),
        x.type(1),
        b.select(b.icmp_signed("==", x, x.type(-1)), b.select(odd, x.type(-1), x.type(1)), x.type(0)),
    )
    return b.select(b.icmp_signed("<", y, y.type(0)), inverse, out)


def _integer_power(module: ir.Module, kind: ir.IntType) -> ir.Function:
    """x**y for unsigned y by squaring, as a function with a loop."""
    name = f"xloom.power.i{kind.width}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(kind, [kind, kind]), name)
    function.linkage = "internal"
    start, loop, done = (function.append_basic_block(n) for n in ("start", "loop", "done"))
    x, y = function.args
    ir.IRBuilder(start).branch(loop)
    b = ir.IRBuilder(loop)
    out, base, left = (b.phi(kind) for _ in range(3))
    odd = b.icmp_unsigned("!=", b.and_(left, kind(1)), kind(0))
    new = b.select(odd, b.mul(out, base), out)
    squared, rest = b.mul(base, base), b.lshr(left, kind(1))
    for phi, first, later in ((out, kind(1), new), (base, x, squared), (left, y, rest)):
        phi.add_incoming(first, start)
        phi.add_incoming(later, loop)
    b.cbranch(b.icmp_unsigned("!=", rest, kind(0)), loop, done)
    ir.IRBuilder(done).ret(new)
    return function


for _opcode, _function in {
    "add": _arithmetic("fadd", "add", "or_"),
    "subtract": _arithmetic("fsub", "sub", "xor"),
    "multiply": _arithmetic("fmul", "mul", "and_"),
    "and": lambda b, dtype, x, y: b.and_(x, y),
    "or": lambda b, dtype, x, y: b.or_(x, y),
    "xor": lambda b, dtype, x, y: b.xor(x, y),
    "maximum": _extremum("maximum"),
    "minimum": _extremum("minimum"),
    "power": _power,
    "atan2": lambda b, dtype, x, y: real_function(b, "atan2", x, y),
}.items():
    emits(_opcode, rounded=_opcode in ("maximum", "minimum"))(_binary(_opcode, _function))


def _quotient(b: Builder, dtype: DType, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.and_(x, y) if dtype.kind is Kind.PRED else b.fdiv(x, y)


def _remainder(b: Builder, dtype: DType, x: ir.Value, y: ir.Value) -> ir.Value:
    return b.and_(x, b.not_(y)) if dtype.kind is Kind.PRED else real_function(b, "remainder", x, y)


emits("divide", rounded=False)(_division("divide", _quotient, integer_division.quotient))
emits("remainder", rounded=False)(_division("remainder", _remainder, integer_division.remainder))


@emits("mulhi")
def mulhi(b: Builder, operator: Operator, x: Value, y: Value) -> Value:
    """The high half of the double-width product."""
    dtype = operand_type(operator)
    wide = ir.IntType(2 * max(dtype.bits, 8))
    extend = b.sext if dtype.kind is Kind.SIGNED else b.zext
    product = b.mul(extend(x, wide), extend(y, wide))
    return wrapped(b, b.trunc(b.lshr(product, wide(dtype.bits)), x.type), dtype)


@emits("shift-left", "shift-right-logical", "shift-right-arithmetic")
def shift(b: Builder, operator: Operator, x: Value, count: Value) -> Value:
    """Zeros (or copies of the sign) come in; counts of the bit width and more, or below 0, shift everything out."""
    dtype = operand_type(operator)
    if dtype.kind is Kind.PRED:
        out = {"shift-left": b.and_(x, b.not_(count)), "shift-right-logical": b.and_(x, b.not_(count))}
        return out.get(operator.opcode, x)
    width = dtype.bits
    outside = b.icmp_unsigned(">=", count, count.type(width))
    zero = x.type(0)
    safe = b.select(outside, zero, count)
    if operator.opcode == "shift-left":
        return b.select(outside, zero, wrapped(b, b.shl(x, safe), dtype))
    raw = b.and_(x, x.type((1 << width) - 1)) if width < 8 else x
    if operator.opcode == "shift-right-logical":
        return b.select(outside, zero, wrapped(b, b.lshr(raw, safe), dtype))
    missing = x.type(x.type.width - width)
    signed = b.ashr(b.shl(x, missing), missing) if width < 8 else x
    return wrapped(b, b.ashr(signed, b.select(outside, x.type(width - 1), count)), dtype)


@emits("complex")
def complex_(b: Builder, operator: Operator, x: Value, y: Value) -> Value:
    """The complex number lhs + i rhs."""
    return Complex(x, y)


_SYMBOLS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}


@emits("compare")
def compare(b: Builder, operator: Operator, x: Value, y: Value) -> Value:
    """By value, or by total order: -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    dtype, direction = operand_type(operator), operator["direction"]
    symbol = _SYMBOLS[direction]
    if dtype.is_complex:
        return complex_math.compare(b, direction, x, y)
    if dtype.is_float and operator["type"] == "TOTALORDER":
        return b.icmp_signed(symbol, total_order_key(b, x), total_order_key(b, y))
    if dtype.is_float:
        return b.fcmp_unordered(symbol, x, y) if direction == "NE" else b.fcmp_ordered(symbol, x, y)
    return (b.icmp_signed if dtype.kind is Kind.SIGNED else b.icmp_unsigned)(symbol, x, y)


def total_order_key(b: Builder, x: ir.Value) -> ir.Value:
    """A signed integer that orders as IEEE 754's totalOrder orders the floats."""
    kind = ir.IntType(64 if str(x.type) == "double" else 32)
    return ordered_bits(b, b.bitcast(x, kind))


# -- three operands ------------------------------------------------------------------------------------------------


def choose(b: Builder, condition: ir.Value, on_true: Value, on_false: Value) -> Value:
    """`select` of values in registers."""
    if isinstance(on_true, Complex):
        return Complex(*(b.select(condition, t, f) for t, f in zip(on_true, on_false, strict=True)))
    return b.select(condition, on_true, on_false)


@emits("select")
def select(b: Builder, operator: Operator, condition: Value, on_true: Value, on_false: Value) -> Value:
    """on_true where the predicate holds, else on_false."""
    return choose(b, condition, on_true, on_false)


@emits("clamp")
def clamp(b: Builder, operator: Operator, low: Value, x: Value, high: Value) -> Value:
    """min(max(x, lo), hi), with NaN where any is."""
    dtype = operator.dtype
    return _extremum("minimum")(b, dtype, _extremum("maximum")(b, dtype, x, low), high)
