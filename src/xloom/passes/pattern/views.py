"""Instructions that only arrange elements, and how dimensions correspond across them.

A pattern says what is computed, not through which reshapes its values pass, so matching looks through these.
Dimensions of size 1 hold no information and are left out everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape

_VIEWS = frozenset({"broadcast", "reshape", "transpose", "copy", "bitcast"})

Block = tuple[tuple[int, ...], tuple[int, ...]]
"""Result dimensions, and the operand dimensions that hold the same elements in the same order."""


def is_view(instruction: Instruction) -> bool:
    """True for an instruction that `blocks` describes."""
    if instruction.opcode not in _VIEWS:
        return False
    shape, source = instruction.shape, instruction.operands[0].shape
    if not shape.is_array or shape.is_dynamic or source.is_dynamic:
        return False
    return instruction.opcode != "bitcast" or (shape.dtype == source.dtype and not _is_tiled(shape, source))


def core(instruction: Instruction) -> Instruction:
    """What computes the elements that `instruction` arranges."""
    while is_view(instruction):
        instruction = instruction.operands[0]
    return instruction


def views_of(instruction: Instruction) -> list[Instruction]:
    """The views between `instruction` and what computes its elements."""
    found = []
    while is_view(instruction):
        found.append(instruction)
        instruction = instruction.operands[0]
    return found


def are_equal_views(one: Instruction, other: Instruction) -> bool:
    """True for the same value, and for views that arrange the same value in the same way."""
    while one is not other:
        alike = is_view(one) and one.opcode == other.opcode and one.shape == other.shape
        if not alike or one.attrs.get("dimensions") != other.attrs.get("dimensions"):
            return False
        one, other = one.operands[0], other.operands[0]
    return True


def wide(shape: Shape) -> tuple[int, ...]:
    """The dimensions that are not of size 1; none of a tuple or token."""
    return tuple(k for k, size in enumerate(shape.dims) if size != 1) if shape.is_array else ()


def blocks(view: Instruction) -> list[Block]:
    """How the result's dimensions correspond to the operand's. New dimensions of a broadcast have no partner."""
    result, source = view.shape.dims, view.operands[0].shape.dims
    if view.opcode == "transpose":
        pairs = [((k,), (d,)) for k, d in enumerate(view["dimensions"])]
    elif view.opcode == "broadcast":
        into = {d: k for k, d in enumerate(view["dimensions"])}
        pairs = [((k,), (into[k],) if k in into else ()) for k in range(len(result))]
    elif view.opcode == "copy":
        pairs = [((k,), (k,)) for k in range(len(result))]
    elif view.opcode == "bitcast":
        return _bitcast_blocks(view.shape, view.operands[0].shape)
    else:
        return reshape_blocks(result, source)
    return [(outer, inner) for outer, inner in pairs if result[outer[0]] != 1]


def reshape_blocks(result: Sequence[int], source: Sequence[int]) -> list[Block]:
    """The finest runs of dimensions with equal products, in order."""
    outer = [k for k, size in enumerate(result) if size != 1]
    inner = [k for k, size in enumerate(source) if size != 1]
    if 0 in result:
        return [(tuple(outer), tuple(inner))]
    found: list[Block] = []
    i = j = 0
    while i < len(outer):
        start, other = i, j
        left, right = result[outer[i]], source[inner[j]]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left, i = left * result[outer[i]], i + 1
            else:
                right, j = right * source[inner[j]], j + 1
        found.append((tuple(outer[start:i]), tuple(inner[other:j])))
    return found


def _bitcast_blocks(result: Shape, source: Shape) -> list[Block]:
    """As of a reshape, but of the dimensions in the order in which elements lie in memory."""
    outer, inner = result.major_to_minor, source.major_to_minor
    found = reshape_blocks([result.dims[k] for k in outer], [source.dims[k] for k in inner])
    return [(tuple(outer[k] for k in left), tuple(inner[k] for k in right)) for left, right in found]


def _is_tiled(*shapes: Shape) -> bool:
    return any(shape.layout is not None and shape.layout.tiles for shape in shapes)
