"""sort of which only the first elements are wanted."""

from __future__ import annotations

from xloom.hlo.computation import Computation
from xloom.hlo.dtype import s32
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape, array_shape, tuple_shape
from xloom.passes.rewrite import Rewriter, RuleTable

rule = RuleTable()


# slice(sort((x, iota), x > y))[:k] == topk(x, k); among equal elements of x, which sorts without order exchange
@rule("slice")
def _first_of_sorted(i: Instruction, rw: Rewriter) -> Instruction | None:
    part = i.operands[0]
    if part.opcode != "get-tuple-element" or part.operands[0].opcode != "sort":
        return None
    sort, last = part.operands[0], i.shape.rank - 1
    parts = [user for element in sort.users for user in element.users]
    only = all(_takes_first(s, i.shape, last) for s in parts) and all(e.users for e in sort.users)
    if not only or not _numbers_places(sort, last):
        return None
    shapes = [array_shape(o.shape.dtype, i.shape.dims) for o in sort.operands]
    best = rw.make("topk", tuple_shape(shapes), [sort.operands[0]], k=i.shape.dims[last], largest=True)
    return rw.make("get-tuple-element", i.shape, [best], index=part["index"])


def _numbers_places(sort: Instruction, last: int) -> bool:
    """True for a sort of rows, greatest first and in no order among equals, with the indices of their elements."""
    if len(sort.operands) != 2 or sort["is_stable"] or sort["dimensions"] != (last,):
        return False
    places = sort.operands[1]
    if places.opcode == "broadcast" and places["dimensions"] == (last,):
        places, last = places.operands[0], 0
    numbers = places.opcode == "iota" and places.shape.dtype is s32 and places["iota_dimension"] == last
    return numbers and _is_greater(sort["to_apply"])


def _is_greater(comparator: Computation) -> bool:
    root = comparator.root
    sides = [o["parameter_number"] for o in root.operands if o.opcode == "parameter"]
    return root.opcode == "compare" and root["direction"] == "GT" and sides == [0, 1]


def _takes_first(i: Instruction, shape: Shape, last: int) -> bool:
    """True for a slice of this shape: of all rows, what they begin with."""
    if i.opcode != "slice" or i.shape.dims != shape.dims or shape.dims[:last] != i.operands[0].shape.dims[:last]:
        return False
    return all(s.start == 0 and s.stride == 1 for s in i["slice"])
