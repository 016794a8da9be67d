"""How the printers name arrays, indices and sizes."""

from __future__ import annotations

from xloom.codegen.buffer_values import BufferValue, leaf_count, leaf_shapes
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.buffers.assignment import BufferAssignment
from xloom.codegen.loop_ir.affine import Affine
from xloom.hlo.shape import Shape


def array_name(value: BufferValue) -> str:
    """`%name`, and of an instruction with several arrays `%name{number}`."""
    instruction, leaf = value
    number = f"{{{leaf}}}" if leaf_count(instruction.shape) > 1 else ""
    return f"%{instruction.name}{number}"


def array_shape(value: BufferValue) -> Shape:
    """The shape of an array as it lies in memory: without a layout."""
    instruction, leaf = value
    shape = leaf_shapes(instruction.shape)[leaf]
    return Shape(shape.dtype, shape.dims)


def place_text(allocation: BufferAllocation, assignment: BufferAssignment) -> str:
    """The kind of an allocation with its number, or the memory and the bytes [from, to) where it lies in the arena."""
    if allocation.kind == "arena":
        memory = f"result {allocation.colocated_with.number}" if allocation.colocated_with else "arena"
        return f"{memory} {allocation.offset}..{allocation.offset + allocation.nbytes}"
    if allocation.gathered is not None:
        return f"own part of {place_text(allocation.gathered[0], assignment)}"
    if allocation.kind in ("code", "unused"):
        return allocation.kind
    number = assignment.stack.index(allocation) if allocation.kind == "stack" else allocation.number
    return f"{allocation.kind} {number}"


def scalar_text(value: object) -> str:
    """A number, or true or false."""
    return str(value).lower()


def bytes_text(count: int) -> str:
    """A number of bytes in the unit that reads best."""
    if count < 1024:
        return f"{count} B"
    size = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024 or unit == "GiB":
            break
    return f"{size:.1f} {unit}"


def index_text(index: Affine) -> str:
    """`2*i1 + i2 - 1`: what is added comes first, so that the text seldom begins with a sign; constants come last."""
    out = ""
    for var, factor in sorted(index.terms, key=lambda term: term[1] < 0):
        out = _plus(out, factor, var.name if abs(factor) == 1 else f"{abs(factor)}*{var.name}")
    if out and not index.const:
        return out
    return _plus(out, index.const, str(abs(index.const)))


def _plus(text: str, sign: int, term: str) -> str:
    if not text:
        return f"-{term}" if sign < 0 else term
    return f"{text} {'-' if sign < 0 else '+'} {term}"


def element_text(value: BufferValue, address: Affine) -> str:
    """`%x[i1, i2]`, or `%x[128*i1 + i2]` where the position is no index of each dimension by itself."""
    name, dims = array_name(value), array_shape(value).dims
    if not dims:
        return name
    index: list[Affine] = []
    rest = address
    for size in reversed(dims[1:]):
        parts = rest.divmod(size) if size else None
        if parts is None:
            return f"{name}[{index_text(address)}]"
        rest, last = parts
        index.append(last)
    return f"{name}[{', '.join(index_text(i) for i in reversed([*index, rest]))}]"
