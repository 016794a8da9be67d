"""compare, select and clamp."""

from __future__ import annotations

from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.passes.match import (
    exponent_of_two,
    highest,
    is_all_ones,
    is_constant,
    is_logical,
    is_splat,
    is_zero,
    lowest,
    splat,
)
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()

_FLIPPED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}


# (c < x) == (x > c); constants go right
@rule("compare")
def _constant_right(i: Instruction, rw: Rewriter) -> Instruction | None:
    a, b = i.operands
    if not is_constant(a) or is_constant(b):
        return None
    i.set_operands((b, a))
    i["direction"] = _FLIPPED[i["direction"]]
    return i


# (x == x) == true;  (x < x) == false; integers, pred, and floats in total order. Not other floats: NaN
@rule("compare")
def _with_itself(i: Instruction, rw: Rewriter) -> Instruction | None:
    a, b = i.operands
    if a is not b or not (is_logical(a.shape.dtype) or i.attrs.get("type") == "TOTALORDER"):
        return None
    return rw.splat(i.shape, i["direction"] in ("EQ", "LE", "GE"))


# (x < lowest) == false;  (x >= lowest) == true;  (x > highest) == false;  (x <= highest) == true; integers and pred
@rule("compare")
def _at_limit(i: Instruction, rw: Rewriter) -> Instruction | None:
    dtype, c, direction = i.operands[0].shape.dtype, i.operands[1], i["direction"]
    if not is_logical(dtype) or direction in ("EQ", "NE"):
        return None
    limit = lowest(dtype) if direction in ("LT", "GE") else highest(dtype)
    return rw.splat(i.shape, direction in ("GE", "LE")) if is_splat(c, limit) else None


# (x == true) == x;  (x != false) == x;  (x == false) == ~x;  (x != true) == ~x; pred
@rule("compare")
def _of_pred(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, c = i.operands
    if x.shape.dtype.kind is not Kind.PRED or i["direction"] not in ("EQ", "NE"):
        return None
    if not is_zero(c) and not is_all_ones(c):
        return None
    return x if is_all_ones(c) == (i["direction"] == "EQ") else rw.make("not", i.shape, [x])


_OF_SIGN = {("EQ", 1): "GT", ("NE", 1): "LE", ("EQ", -1): "LT", ("NE", -1): "GE", ("EQ", 0): "EQ", ("NE", 0): "NE"}


# (sign(x) == 1) == (x > 0);  (sign(x) != 1) == (x <= 0), and so for -1 and 0; signed integers. Not floats: NaN
@rule("compare")
def _of_sign(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, c = i.operands
    if x.opcode != "sign" or x.shape.dtype.kind is not Kind.SIGNED or (value := splat(c)) is None:
        return None
    direction = _OF_SIGN.get((i["direction"], int(value)))
    if direction is None:
        return None
    return rw.make("compare", i.shape, [x.operands[0], rw.splat(x.shape, 0)], direction=direction)


# select(x rem c < 0, x / c - 1, x / c) == x >> k;  select(x rem c < 0, x rem c + c, x rem c) == x and (c - 1);
# signed integers and c = 2**k, for quotients that are rounded down, and their remainders
@rule("select")
def _rounded_down(i: Instruction, rw: Rewriter) -> Instruction | None:
    p, a, b = i.operands
    if p.opcode != "compare" or p["direction"] != "LT" or not is_zero(p.operands[1]):
        return None
    rest = p.operands[0]
    if rest.opcode != "remainder" or i.shape.dtype.kind is not Kind.SIGNED or rest.shape != i.shape:
        return None
    x, c = rest.operands
    k = exponent_of_two(c)
    if k is None:
        return None
    if b is rest and a.opcode == "add" and a.operands[0] is rest and is_splat(a.operands[1], 1 << k):
        return rw.make("and", i.shape, [x, rw.splat(i.shape, (1 << k) - 1)])
    if b.opcode != "divide" or b.operands[0] is not x or not is_splat(b.operands[1], 1 << k):
        return None
    if a.opcode != "subtract" or a.operands[0] is not b or not is_splat(a.operands[1], 1):
        return None
    return rw.make("shift-right-arithmetic", i.shape, [x, rw.splat(i.shape, k)])


# select(p, x, x) == x
@rule("select")
def _same_choices(i: Instruction, rw: Rewriter) -> Instruction | None:
    _, a, b = i.operands
    return a if a is b else None


# select(true, x, y) == x;  select(false, x, y) == y
@rule("select")
def _known_choice(i: Instruction, rw: Rewriter) -> Instruction | None:
    p, a, b = i.operands
    return a if is_all_ones(p) else b if is_zero(p) else None


# select(~p, x, y) == select(p, y, x)
@rule("select")
def _not_choice(i: Instruction, rw: Rewriter) -> Instruction | None:
    p, a, b = i.operands
    return rw.make("select", i.shape, [p.operands[0], b, a]) if p.opcode == "not" else None


# select(p, true, false) == p;  select(p, false, true) == ~p; pred of the same shape
@rule("select")
def _choice_of_truth(i: Instruction, rw: Rewriter) -> Instruction | None:
    p, a, b = i.operands
    if i.shape.dtype.kind is not Kind.PRED or p.shape != i.shape:
        return None
    if is_all_ones(a) and is_zero(b):
        return p
    return rw.make("not", i.shape, [p]) if is_zero(a) and is_all_ones(b) else None


# select(p, select(p, x, y), z) == select(p, x, z);  select(p, x, select(p, y, z)) == select(p, x, z)
@rule("select")
def _choice_within_choice(i: Instruction, rw: Rewriter) -> Instruction | None:
    p, a, b = i.operands
    inner_a = a.operands[1] if a.opcode == "select" and a.operands[0] is p else a
    inner_b = b.operands[2] if b.opcode == "select" and b.operands[0] is p else b
    if inner_a is a and inner_b is b:
        return None
    return rw.make("select", i.shape, [p, inner_a, inner_b])


# clamp(lowest, x, highest) == x; floats too, with -inf and inf
@rule("clamp")
def _clamp_to_everything(i: Instruction, rw: Rewriter) -> Instruction | None:
    low, x, high = i.operands
    dtype = i.shape.dtype
    return x if is_splat(low, lowest(dtype)) and is_splat(high, highest(dtype)) else None
