"""reduce over dimensions of size 1, as masks of gathers with one index have them, over stacks, and all dimensions."""

from __future__ import annotations

from xloom.hlo.instruction import Instruction
from xloom.hlo.opcodes import OPCODES
from xloom.passes.match import is_all_ones, is_zero
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


# reduce(x, c, d, f) == f(broadcast(c), reshape(x)); d are dimensions of size 1, f an elementwise operator; reshape(x)
# where f is `and` and c true, or f is `or` and c false
@rule("reduce")
def _of_one_element(i: Instruction, rw: Rewriter) -> Instruction | None:
    root = i["to_apply"].root
    if len(i.operands) != 2 or i.shape.is_dynamic or i.operands[0].shape.is_dynamic or not i.shape.size:
        return None
    x, start = i.operands
    if x.shape.size != i.shape.size or not OPCODES[root.opcode].elementwise:
        return None
    if any(o.opcode != "parameter" or o.shape.dtype is not x.shape.dtype for o in root.operands):
        return None
    value = rw.make("reshape", i.shape, [x])
    numbers = [o["parameter_number"] for o in root.operands]
    changes_nothing = is_all_ones(start) if root.opcode == "and" else root.opcode == "or" and is_zero(start)
    if changes_nothing and sorted(numbers) == [0, 1]:
        return value
    values = [rw.make("broadcast", i.shape, [start], dimensions=()), value]
    return rw.make(root.opcode, i.shape, [values[k] for k in numbers], **root.attrs)


# reduce(reshape(x), c, all dimensions, f) == reduce(x, c, all dimensions, f)
@rule("reduce")
def _of_all(i: Instruction, rw: Rewriter) -> Instruction | None:
    x, *start = i.operands
    if len(start) != 1 or x.opcode != "reshape" or x.shape.is_dynamic or len(i["dimensions"]) != x.shape.rank:
        return None
    (source,) = x.operands
    if source.shape.is_dynamic or not source.shape.rank:
        return None
    attrs = {**i.attrs, "dimensions": tuple(range(source.shape.rank))}
    return rw.make("reduce", i.shape, [source, *start], **attrs)


# reduce(concatenate(x, y), c, {d}, f) == f(f(c, x), y); x and y have one element along d. Likewise of what elementwise
# operators make of stacks, and of what is the same in each layer
@rule("reduce")
def _of_stack(i: Instruction, rw: Rewriter) -> Instruction | None:
    root = i["to_apply"].root
    if len(i.operands) != 2 or len(i["dimensions"]) != 1 or root.opcode not in _FOLDED or not i.shape.size:
        return None
    (x, start), (along,), dtype = i.operands, i["dimensions"], i.shape.dtype
    # others keep the digits of f32 while they are added up
    if dtype.is_float and dtype.bits < 32 and root.opcode not in ("maximum", "minimum"):
        return None
    is_plain = len(root.operands) == 2 and {o.opcode for o in root.operands} == {"parameter"}
    if not is_plain or root.operands[0] is root.operands[1] or x.shape.dtype is not dtype:
        return None
    layers, parts = x.shape.dims[along], _parts(x, along)
    if layers < 2 or layers * len(parts) > _MOST_OPERATORS or not any(_is_stack(p, along) for p in parts):
        return None
    if not all(_is_stack(p, along) or _is_same(p, along) or p.op.elementwise for p in parts):
        return None
    if any(
        p.shape.dims != x.shape.dims or p.shape.is_dynamic or p.op.has_effect or p.sharding is not None for p in parts
    ):
        return None
    result = rw.make("broadcast", i.shape, [start], dimensions=())
    same: dict[Instruction, Instruction] = {}
    for layer in range(layers):
        made: dict[Instruction, Instruction] = {}
        for p in parts:
            shape = i.shape.with_dtype(p.shape.dtype)
            if _is_stack(p, along):
                made[p] = rw.make("reshape", shape, [p.operands[layer]])
            elif _is_same(p, along):
                dims = tuple(d - (d > along) for d in p["dimensions"])
                made[p] = same[p] = same.get(p) or rw.make("broadcast", shape, p.operands, dimensions=dims)
            else:
                made[p] = rw.make(p.opcode, shape, [made[o] for o in p.operands], **p.attrs)
        result = rw.make(root.opcode, i.shape, [result, made[x]], **root.attrs)
    return result


_FOLDED = frozenset(["add", "and", "maximum", "minimum", "multiply", "or"])
_MOST_OPERATORS = 128
"""How many more instructions there may be."""


def _parts(x: Instruction, along: int) -> list[Instruction]:
    """What an array is computed of by elementwise operators, each after its operands; nothing if that is much."""
    found: dict[Instruction, None] = {}
    stack = [(x, False)]
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


def _is_stack(x: Instruction, along: int) -> bool:
    """True of layers that are put one upon the other."""
    is_along = x.opcode == "concatenate" and tuple(x["dimensions"]) == (along,)
    return is_along and all(o.shape.dims[along] == 1 for o in x.operands)


def _is_same(x: Instruction, along: int) -> bool:
    """True where all layers are the same."""
    return x.opcode == "broadcast" and along not in x["dimensions"]
