"""reshape, transpose and reverse."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.match import is_elementwise
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


# reshape(reshape(x)) == reshape(x)
@rule("reshape")
def _reshape_twice(i: Instruction, rw: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    return rw.make("reshape", i.shape, inner.operands) if inner.opcode == "reshape" else None


# reshape(f(x, y)) == f(reshape(x), reshape(y)); f elementwise, which only loses dimensions of size 1, for every reader
@rule("reshape")
def _of_computed(i: Instruction, rw: Rewriter) -> Instruction | None:
    wide = i.operands[0]
    if i.shape.rank >= wide.shape.rank or not is_elementwise(wide) or wide.is_root:
        return None
    if [n for n in wide.shape.dims if n != 1] != [n for n in i.shape.dims if n != 1]:
        return None
    if any(user.opcode != "reshape" or user.shape != i.shape for user in wide.users):
        return None
    operands = [
        rw.once("reshape", array_shape(o.shape.dtype, i.shape.dims), o) if o.shape.rank else o for o in wide.operands
    ]
    return rw.make(wide.opcode, i.shape, operands, **wide.attrs)


# transpose(x, {0, 1, ...}) == x
@rule("transpose")
def _identity(i: Instruction, rw: Rewriter) -> Instruction | None:
    return i.operands[0] if i["dimensions"] == tuple(range(i.shape.rank)) else None


# transpose(transpose(x, p), q) == transpose(x, p[q])
@rule("transpose")
def _transpose_twice(i: Instruction, rw: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "transpose":
        return None
    p = inner["dimensions"]
    return rw.make("transpose", i.shape, inner.operands, dimensions=tuple(p[q] for q in i["dimensions"]))


# transpose(x) == reshape(x); when only dimensions of size 1 change places
@rule("transpose")
def _moves_nothing(i: Instruction, rw: Rewriter) -> Instruction | None:
    x = i.operands[0]
    moved = [d for d in i["dimensions"] if x.shape.dims[d] != 1]
    if i["dimensions"] == tuple(range(x.shape.rank)) or moved != sorted(moved):
        return None
    return rw.make("reshape", i.shape, [x])


# reverse(x, d) == reverse(x, d without dimensions of size 1);  reverse(x, {}) == x
@rule("reverse")
def _of_one(i: Instruction, rw: Rewriter) -> Instruction | None:
    kept = tuple(d for d in i["dimensions"] if i.shape.dims[d] > 1)
    if not kept:
        return i.operands[0]
    return rw.make("reverse", i.shape, i.operands, dimensions=kept) if kept != i["dimensions"] else None


# reverse(reverse(x, d), e) == reverse(x, d xor e)
@rule("reverse")
def _reverse_twice(i: Instruction, rw: Rewriter) -> Instruction | None:
    inner = i.operands[0]
    if inner.opcode != "reverse":
        return None
    once = set(inner["dimensions"]) ^ set(i["dimensions"])
    return rw.make("reverse", i.shape, inner.operands, dimensions=tuple(sorted(once)))
