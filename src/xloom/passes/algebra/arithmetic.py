"""Sums, products, quotients and powers. Floats: only what is exact for NaN, infinities, both zeros and denormals."""

from __future__ import annotations

import math

import ml_dtypes

from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.passes.match import exponent_of_two, is_all_ones, is_constant, is_logical, is_splat, is_zero, splat
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()

_REASSOCIATES = ("add", "multiply", "and", "or", "xor", "maximum", "minimum")


# c + x == x + c; constants go right, so that the rules need to look there only
# max(c, x) == max(x, c); but not of a float 0.0, where max(0.0, -0.0) is the first
@rule("add", "multiply", "and", "or", "xor", "maximum", "minimum")
def _constant_right(i: Instruction, rw: Rewriter) -> Instruction | None:
    a, b = i.operands
    if not is_constant(a) or is_constant(b) or a.shape.dtype is not b.shape.dtype:
        return None
    if i.opcode in ("maximum", "minimum") and not is_logical(i.shape.dtype):
        value = splat(a)
        if value is None or value == 0:
            return None
    i.set_operands((b, a))
    return i


# x + 0 == x; integers, and pred, where + is or
# x - 0 == x; integers
@rule("add", "subtract")
def _plus_zero(i: Instruction, rw: Rewriter) -> Instruction | None:
    return i.operands[0] if is_zero(i.operands[1]) else None


# x + -0.0 == x; floats. Not x + 0.0, which turns -0.0 into 0.0
@rule("add")
def _plus_negative_zero(i: Instruction, rw: Rewriter) -> Instruction | None:
    return i.operands[0] if i.shape.dtype.is_float and is_splat(i.operands[1], -0.0) else None


# x - 0.0 == x; floats. Not x - -0.0, which turns -0.0 into 0.0
@rule("subtract")
def _minus_zero(i: Instruction, rw: Rewriter) -> Instruction | None:
    return i.operands[0] if i.shape.dtype.is_float and is_splat(i.operands[1], 0.0) else None


# 0 - x == -x; integers
# -0.0 - x == -x; floats. Not 0.0 - x, which is 0.0 for x = 0.0
@rule("subtract")
def _zero_minus(i: Instruction, rw: Rewriter) -> Instruction | None:
    zero, x = i.operands
    if is_zero(zero) or (i.shape.dtype.is_float and is_splat(zero, -0.0)):
        return rw.make("negate", i.shape, [x])
    return None


# x - x == 0; integers. Not floats: inf - inf is NaN
@rule("subtract")
def _minus_itself(i: Instruction, rw: Rewriter) -> Instruction | None:
    a, b = i.operands
    return rw.splat(i.shape, 0) if a is b and i.shape.dtype.is_integer else None


# x + -y == x - y
@rule("add")
def _plus_negative(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, y = i.operands
    if y.opcode != "negate":
        x, y = y, x
    if y.opcode != "negate" or i.shape.dtype.is_complex:
        return None
    return rw.make("subtract", i.shape, [x, y.operands[0]])


# x - -y == x + y
@rule("subtract")
def _minus_negative(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, y = i.operands
    return rw.make("add", i.shape, [x, y.operands[0]]) if y.opcode == "negate" else None


# (x + y) - y == x; integers, which wrap
@rule("subtract")
def _add_then_subtract(i: Instruction, rw: Rewriter) -> Instruction | None:
    total, y = i.operands
    if total.opcode != "add" or not i.shape.dtype.is_integer or y not in total.operands:
        return None
    a, b = total.operands
    return a if b is y else b


# (x - y) + y == x; integers, which wrap
@rule("add")
def _subtract_then_add(i: Instruction, rw: Rewriter) -> Instruction | None:
    if not i.shape.dtype.is_integer:
        return None
    for difference, y in (i.operands, i.operands[::-1]):
        if difference.opcode == "subtract" and difference.operands[1] is y:
            return difference.operands[0]
    return None


# (x + c) + d == x + (c + d), and so for *, and, or, xor, max, min; integers and pred. Not floats, which round
@rule(*_REASSOCIATES)
def _reassociate(i: Instruction, rw: Rewriter) -> Instruction | None:
    inner, d = i.operands
    if inner.opcode != i.opcode or not is_logical(i.shape.dtype) or not is_constant(d):
        return None
    x, c = inner.operands
    if not is_constant(c) or is_constant(x):
        return None
    return rw.make(i.opcode, i.shape, [x, rw.make(i.opcode, i.shape, [c, d])])


# (x - c) - d == x - (c + d);  (x - c) + d == x + (d - c);  (x + c) - d == x + (c - d); integers
@rule("add", "subtract")
def _merge_offsets(i: Instruction, rw: Rewriter) -> Instruction | None:
    inner, d = i.operands
    if not i.shape.dtype.is_integer or not is_constant(d):
        return None
    if inner.opcode not in ("add", "subtract") or inner.opcode == i.opcode == "add":
        return None
    x, c = inner.operands
    if not is_constant(c) or is_constant(x):
        return None
    if inner.opcode == i.opcode:
        return rw.make("subtract", i.shape, [x, rw.make("add", i.shape, [c, d])])
    plus, minus = (d, c) if i.opcode == "add" else (c, d)
    return rw.make("add", i.shape, [x, rw.make("subtract", i.shape, [plus, minus])])


# x * 1 == x;  x / 1 == x;  x ** 1 == x; not complex, where inf * 1 is inf + NaN i
@rule("multiply", "divide", "power")
def _times_one(i: Instruction, rw: Rewriter) -> Instruction | None:
    return i.operands[0] if is_splat(i.operands[1], 1) else None


# x * 0 == 0; integers, and pred, where * is and. Not floats: NaN * 0 is NaN, -1 * 0 is -0.0
@rule("multiply")
def _times_zero(i: Instruction, rw: Rewriter) -> Instruction | None:
    return i.operands[1] if is_zero(i.operands[1]) else None


# x * -1 == -x;  x / -1 == -x; floats and signed integers, which wrap
@rule("multiply", "divide")
def _times_minus_one(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, c = i.operands
    return rw.make("negate", i.shape, [x]) if is_splat(c, -1) else None


# -x * -y == x * y;  -x / -y == x / y; floats, and * of integers. Not / of integers: INT_MIN
@rule("multiply", "divide")
def _both_negative(i: Instruction, rw: Rewriter) -> Instruction | None:
    a, b = i.operands
    if a.opcode != "negate" or b.opcode != "negate" or i.shape.dtype.is_complex:
        return None
    if i.opcode == "divide" and not i.shape.dtype.is_float:
        return None
    return rw.make(i.opcode, i.shape, [a.operands[0], b.operands[0]])


# x / 2**k == x * 2**-k; floats, where 2**-k is a normal number
@rule("divide")
def _divide_by_power_of_two(i: Instruction, rw: Rewriter) -> Instruction | None:
    dtype = i.shape.dtype
    value = splat(i.operands[1]) if dtype.name in ("f16", "bf16", "f32", "f64") else None
    if value is None or abs(math.frexp(float(value))[0]) != 0.5:
        return None
    reciprocal, limits = 1 / float(value), ml_dtypes.finfo(dtype.numpy)
    if not float(limits.smallest_normal) <= abs(reciprocal) <= float(limits.max):
        return None
    return rw.make("multiply", i.shape, [i.operands[0], rw.splat(i.shape, reciprocal)])


# x / 2**k == x >> k;  x rem 2**k == x and (2**k - 1); unsigned. Not signed, whose quotients round towards zero
@rule("divide", "remainder")
def _unsigned_power_of_two(i: Instruction, rw: Rewriter) -> Instruction | None:
    k = exponent_of_two(i.operands[1]) if i.shape.dtype.kind is Kind.UNSIGNED else None
    if k is None:
        return None
    if i.opcode == "divide":
        return rw.make("shift-right-logical", i.shape, [i.operands[0], rw.splat(i.shape, k)])
    return rw.make("and", i.shape, [i.operands[0], rw.splat(i.shape, (1 << k) - 1)])


# x rem 1 == 0; integers.  x rem -1 == 0; signed integers
@rule("remainder")
def _remainder_of_one(i: Instruction, rw: Rewriter) -> Instruction | None:
    c = i.operands[1]
    ones = i.shape.dtype.kind is Kind.SIGNED and is_all_ones(c)
    return rw.splat(i.shape, 0) if i.shape.dtype.is_integer and (is_splat(c, 1) or ones) else None


# x ** 0 == 1; NaN ** 0 is 1 too
@rule("power")
def _power_zero(i: Instruction, rw: Rewriter) -> Instruction | None:
    c = i.operands[1]
    return rw.splat(i.shape, 1) if is_splat(c, 0) or is_splat(c, -0.0) else None


# x ** 2 == x * x; integers. Not floats: a pow function need not round correctly
@rule("power")
def _square(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, c = i.operands
    return rw.make("multiply", i.shape, [x, x]) if i.shape.dtype.is_integer and is_splat(c, 2) else None


# -(-x) == x
@rule("negate")
def _negate_twice(i: Instruction, rw: Rewriter) -> Instruction | None:
    x = i.operands[0]
    return x.operands[0] if x.opcode == "negate" else None


# -(x - y) == y - x; integers. Not floats: -(x - x) is -0.0
@rule("negate")
def _negate_difference(i: Instruction, rw: Rewriter) -> Instruction | None:
    x = i.operands[0]
    if x.opcode != "subtract" or not i.shape.dtype.is_integer:
        return None
    return rw.make("subtract", i.shape, x.operands[::-1])
