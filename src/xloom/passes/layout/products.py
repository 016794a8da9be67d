"""transpose of matrices that are multiplied, which a product does by itself."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import array_shape
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()

_SIDES = ("lhs_contracting_dims", "lhs_batch_dims"), ("rhs_contracting_dims", "rhs_batch_dims")
_SECOND_LEVEL = 1 << 18


def _is_worth_moving(right: Instruction, left: Instruction) -> bool:
    """True where rows of a right operand should lie together: it stays in the caches, and is not read as `left` too."""
    small = right.shape.dtype.bytes >= 4 and right.shape.nbytes <= _SECOND_LEVEL
    return small and right.operands[0] is not left


# dot(transpose(x), y) over d == dot(x, y) over p[d];  the same of y; where its own dimensions keep their order
@rule("dot")
def _transposed_operand(i: Instruction, rw: Rewriter) -> Instruction | None:
    operands, attrs = list(i.operands), dict(i.attrs)
    for k, kinds in enumerate(_SIDES):
        x = operands[k]
        if x.opcode != "transpose" or (k and _is_worth_moving(x, i.operands[0])):
            continue
        inside = {d for kind in kinds for d in i[kind]}
        own = [x["dimensions"][d] for d in range(x.shape.rank) if d not in inside]
        if own == sorted(own):
            attrs |= {kind: tuple(x["dimensions"][d] for d in i[kind]) for kind in kinds}
            operands[k] = x.operands[0]
    return None if operands == list(i.operands) else rw.make("dot", i.shape, operands, **attrs)


# reshape(transpose(x, p)) == transpose(reshape(x), q); read by products alone, where it merges what lies together in x
@rule("reshape")
def _merged_operand(i: Instruction, rw: Rewriter) -> Instruction | None:
    moved = i.operands[0]
    if moved.opcode != "transpose" or i.is_root or any(user.opcode != "dot" for user in i.users):
        return None
    if i.shape.is_dynamic or moved.shape.is_dynamic:
        return None
    merged = _merged(moved.shape.dims, i.shape.dims)
    if merged is None:
        return None
    x, p = moved.operands[0], moved["dimensions"]
    sources = [[p[d] for d in group if x.shape.dims[p[d]] != 1] for group in merged]
    if any(group != list(range(group[0], group[0] + len(group))) for group in sources if group):
        return None
    # what has one element may be anywhere
    order = sorted(range(len(sources)), key=lambda d: sources[d][0] if sources[d] else -1)
    together = rw.make("reshape", array_shape(x.shape.dtype, [i.shape.dims[d] for d in order]), [x])
    return rw.make("transpose", i.shape, [together], dimensions=tuple(order.index(d) for d in range(len(order))))


def _merged(dims: Sequence[int], into: Sequence[int]) -> list[range] | None:
    """The dimensions that each dimension of a reshape is made of; None where one is split."""
    groups, first = [], 0
    for size in into:
        last, product = first, 1
        while last < len(dims) and (product < size or dims[last] == 1):
            product *= dims[last]
            last += 1
        if product != size:
            return None
        groups.append(range(first, last))
        first = last
    return groups


# transpose(dot(x, y)) == dot(y, x); where it exchanges their own dimensions
@rule("transpose")
def _transposed_product(i: Instruction, rw: Rewriter) -> Instruction | None:
    product = i.operands[0]
    if product.opcode != "dot" or len(product.users) != 1:
        return None
    attrs = dict(product.attrs)
    batched = len(product["lhs_batch_dims"])
    columns = batched + product.operands[0].shape.rank - batched - len(product["lhs_contracting_dims"])
    if i["dimensions"] != (*range(batched), *range(columns, i.shape.rank), *range(batched, columns)):
        return None
    for left, right in zip(*_SIDES, strict=True):
        attrs[left], attrs[right] = product[right], product[left]
    if "operand_precision" in attrs:
        attrs["operand_precision"] = tuple(reversed(attrs["operand_precision"]))
    return rw.make("dot", i.shape, product.operands[::-1], **attrs)
