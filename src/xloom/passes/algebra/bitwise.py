"""Bitwise and logical operators, shifts, maximum and minimum."""

from __future__ import annotations

from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.passes.match import highest, is_all_ones, is_logical, is_splat, is_zero, lowest, splat
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()

_SHIFTS = ("shift-left", "shift-right-arithmetic", "shift-right-logical")


# x and x == x;  x or x == x;  max(x, x) == x;  min(x, x) == x; NaN too
@rule("and", "or", "maximum", "minimum")
def _with_itself(i: Instruction, rw: Rewriter) -> Instruction | None:
    a, b = i.operands
    return a if a is b else None


# x and 0 == 0;  x or ~0 == ~0
@rule("and", "or")
def _absorbing(i: Instruction, rw: Rewriter) -> Instruction | None:
    c = i.operands[1]
    return c if (is_zero(c) if i.opcode == "and" else is_all_ones(c)) else None


# x and ~0 == x;  x or 0 == x;  x xor 0 == x
@rule("and", "or", "xor")
def _identity_value(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, c = i.operands
    return x if (is_all_ones(c) if i.opcode == "and" else is_zero(c)) else None


# x xor x == 0
@rule("xor")
def _xor_itself(i: Instruction, rw: Rewriter) -> Instruction | None:
    a, b = i.operands
    return rw.splat(i.shape, 0) if a is b else None


# x xor ~0 == ~x
@rule("xor")
def _xor_ones(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, c = i.operands
    return rw.make("not", i.shape, [x]) if is_all_ones(c) else None


# x and ~x == 0;  x or ~x == ~0
@rule("and", "or")
def _with_complement(i: Instruction, rw: Rewriter) -> Instruction | None:
    a, b = i.operands
    if not (a.opcode == "not" and a.operands[0] is b) and not (b.opcode == "not" and b.operands[0] is a):
        return None
    return rw.splat(i.shape, 0 if i.opcode == "and" else -1)


# (x < c) and (x != c) == (x < c);  (x > c) and (x != c) == (x > c); NaN too
# (x <= 0) and (x rem y != 0) == (x rem y < 0); signed integers, whose remainders have the sign of x
@rule("and")
def _unequal_and_less(i: Instruction, rw: Rewriter) -> Instruction | None:
    for less, unequal in (i.operands, i.operands[::-1]):
        if less.opcode != "compare" or unequal.opcode != "compare" or unequal["direction"] != "NE":
            continue
        if "TOTALORDER" in (less.attrs.get("type"), unequal.attrs.get("type")):
            continue  # -0.0 is less than 0.0 there, and equal to it elsewhere
        (x, c), (y, d) = less.operands, unequal.operands
        if x is y and less["direction"] in ("LT", "GT") and (c is d or _are_alike(c, d)):
            return less
        is_negative = less["direction"] in ("LT", "LE") and is_zero(c) and is_zero(d)
        if is_negative and y.opcode == "remainder" and y.operands[0] is x and x.shape.dtype.kind is Kind.SIGNED:
            return rw.make("compare", i.shape, [y, d], direction="LT")
    return None


def _are_alike(a: Instruction, b: Instruction) -> bool:
    x, y = splat(a), splat(b)
    return x is not None and y is not None and bool(x == y)


# ~~x == x
@rule("not")
def _not_twice(i: Instruction, rw: Rewriter) -> Instruction | None:
    x = i.operands[0]
    return x.operands[0] if x.opcode == "not" else None


_INVERSE = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}


# not (x == y) == (x != y);  not (x < y) == (x >= y), but for floats not, where NaN is neither
@rule("not")
def _not_compare(i: Instruction, rw: Rewriter) -> Instruction | None:
    x = i.operands[0]
    if x.opcode != "compare" or len(x.users) > 1:
        return None
    total = is_logical(x.operands[0].shape.dtype) or x.attrs.get("type") == "TOTALORDER"
    if not total and x["direction"] not in ("EQ", "NE"):
        return None
    return rw.make("compare", i.shape, x.operands, **{**x.attrs, "direction": _INVERSE[x["direction"]]})


# max(x, lowest) == x;  min(x, highest) == x; floats too, with -inf and inf
@rule("maximum", "minimum")
def _identity_bound(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, c = i.operands
    bound = lowest(i.shape.dtype) if i.opcode == "maximum" else highest(i.shape.dtype)
    return x if is_splat(c, bound) else None


# max(x, highest) == highest;  min(x, lowest) == lowest; integers and pred. Not floats: NaN
@rule("maximum", "minimum")
def _absorbing_bound(i: Instruction, rw: Rewriter) -> Instruction | None:
    c = i.operands[1]
    bound = highest(i.shape.dtype) if i.opcode == "maximum" else lowest(i.shape.dtype)
    return c if is_logical(i.shape.dtype) and is_splat(c, bound) else None


# x << 0 == x;  x >> 0 == x
@rule(*_SHIFTS)
def _shift_by_zero(i: Instruction, rw: Rewriter) -> Instruction | None:
    return i.operands[0] if is_zero(i.operands[1]) else None


# x << n == 0;  x >>logical n == 0, n >= bit width (or negative, which counts as huge)
@rule("shift-left", "shift-right-logical")
def _shift_out(i: Instruction, rw: Rewriter) -> Instruction | None:
    value = splat(i.operands[1]) if i.shape.dtype.is_integer else None
    if value is None or 0 <= int(value) < i.shape.dtype.bits:
        return None
    return rw.splat(i.shape, 0)
