"""reduce of layers that are put one upon the other: of one after the other, and no array has them all."""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.passes.rewrite import Rewriter, RuleTable
from xloom.passes.scan_expansion import is_elementwise

rule = RuleTable()

_MOST_OPERATORS = 128
"""How many more instructions there may be."""
_EXACT = frozenset(["and", "compare", "constant", "maximum", "minimum", "not", "or", "parameter", "select", "tuple"])
"""What rounds nothing: others keep the digits of f32 while they are reduced."""


# reduce(concatenate(x, y), c, {d}, f) == f(f(c, x), y); x and y have one element along d. Likewise of what elementwise
# operators make of stacks, of what is the same in each layer, and of the layers' numbers
@rule("reduce")
def _of_stack(i: Instruction, rw: Rewriter) -> Instruction | None:
    return _reduced(i, 0, rw) if i.shape.is_array else None


# get-tuple-element(reduce(...)), of several arrays: as above
@rule("get-tuple-element")
def _of_stacks(i: Instruction, rw: Rewriter) -> Instruction | None:
    (operand,) = i.operands
    return _reduced(operand, i["index"], rw) if operand.opcode == "reduce" else None


def _reduced(reduce: Instruction, number: int, rw: Rewriter) -> Instruction | None:
    """One of the results."""
    count, body = len(reduce.operands) // 2, reduce["to_apply"]
    arrays, starts = reduce.operands[:count], reduce.operands[count:]
    if len(reduce["dimensions"]) != 1 or not arrays[0].shape.size or not is_elementwise(body, ()):
        return None
    is_narrow = any(a.shape.dtype.is_float and a.shape.dtype.bits < 32 for a in arrays)
    if is_narrow and any(i.opcode not in _EXACT for i in body):
        return None
    (along,), dims = reduce["dimensions"], arrays[0].shape.dims
    layers, parts = dims[along], _parts(arrays, along)
    if layers < 2 or layers * (len(parts) + len(body)) > _MOST_OPERATORS:
        return None
    if not any(_is_stack(p, along) for p in parts) or not all(_is_known(p, along) for p in parts):
        return None
    if any(p.shape.dims != dims or p.shape.is_dynamic or p.op.has_effect or p.sharding is not None for p in parts):
        return None
    shapes = reduce.shape.elements if reduce.shape.is_tuple else (reduce.shape,)
    results = [rw.make("broadcast", s, [c], dimensions=()) for s, c in zip(shapes, starts, strict=True)]
    same: dict[Instruction, Instruction] = {}
    for layer in range(layers):
        made: dict[Instruction, Instruction] = {}
        for p in parts:
            shape = shapes[0].with_dtype(p.shape.dtype)
            if _is_stack(p, along):
                made[p] = rw.make("reshape", shape, [p.operands[layer]])
            elif p.opcode == "iota" and p["iota_dimension"] == along:
                made[p] = rw.splat(shape, layer)
            elif _is_same(p, along):
                made[p] = same[p] = same.get(p) or _layer(p, shape, along, rw)
            else:
                made[p] = rw.make(p.opcode, shape, [made[o] for o in p.operands], **p.attrs)
        results = _applied(reduce, [*results, *(made[a] for a in arrays)], rw)
    return results[number]


def _applied(reduce: Instruction, values: Sequence[Instruction], rw: Rewriter) -> list[Instruction]:
    """What the reducer gives for arrays in the place of its parameters."""
    body, made = reduce["to_apply"], dict[Instruction, Instruction]()
    results = body.root.operands if body.root.opcode == "tuple" else (body.root,)
    for i in body.post_order():
        if i.opcode == "parameter":
            made[i] = values[i["parameter_number"]]
        elif i.shape.is_array:
            shape = values[0].shape.with_dtype(i.shape.dtype)
            if i.opcode == "constant":
                made[i] = rw.splat(shape, i.literal.value)
            elif i.op.elementwise:
                made[i] = rw.make(i.opcode, shape, [made[o] for o in i.operands], **i.attrs)
            else:  # it moves one element
                made[i] = made[i.operands[0]]
    return [made[r] for r in results]


def _parts(arrays: Sequence[Instruction], along: int) -> list[Instruction]:
    """What arrays are computed of by elementwise operators, each after its operands; nothing if that is much."""
    found: dict[Instruction, None] = {}
    stack = [(x, False) for x in arrays]
    while stack:
        part, is_done = stack.pop()
        if is_done:
            found[part] = None
        elif part not in found:
            stack.append((part, True))
            if not (_is_stack(part, along) or _is_same(part, along)) and part.op.elementwise:
                stack.extend((o, False) for o in part.operands)
        if len(found) + len(stack) > 2 * _MOST_OPERATORS:
            return []
    return list(found)


def _is_known(x: Instruction, along: int) -> bool:
    return _is_stack(x, along) or _is_same(x, along) or x.opcode == "iota" or x.op.elementwise


def _is_stack(x: Instruction, along: int) -> bool:
    """True of layers that are put one upon the other."""
    is_along = x.opcode == "concatenate" and tuple(x["dimensions"]) == (along,)
    return is_along and all(o.shape.dims[along] == 1 for o in x.operands)


def _is_same(x: Instruction, along: int) -> bool:
    """True where all layers are the same."""
    is_across = x.opcode == "broadcast" and along not in x["dimensions"]
    return is_across or (x.opcode == "iota" and x["iota_dimension"] != along)


def _layer(same: Instruction, shape: Shape, along: int, rw: Rewriter) -> Instruction:
    """One of the layers, all of which are the same."""
    if same.opcode == "iota":
        dimension = same["iota_dimension"]
        return rw.make("iota", shape, iota_dimension=dimension - (dimension > along))
    return rw.make("broadcast", shape, same.operands, dimensions=tuple(d - (d > along) for d in same["dimensions"]))
