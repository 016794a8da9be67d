"""Collectives among the members of a group, on values: each is a program of its own.

So what processes do between two collectives may differ: one of them may print a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Protocol

import torch

import xloom
from xloom.errors import UnsupportedError
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape, array_shape
from xloom.pjrt.executable import LoadedExecutable
from xloom.pjrt.options import CompileOptions
from xloom.torch.dtypes import hlo_dtype
from xloom.torch.lazy.recording.operation import apply
from xloom.torch.lazy.recording.trace import Value
from xloom.torch.lazy.runtime import device_client
from xloom.torch.lazy.runtime.execution import buffer_of
from xloom.torch.lazy.tensor.array_type import array_type
from xloom.torch.lowering import Graph

REDUCTIONS = {
    "sum": "add",
    "avg": "add",
    "product": "multiply",
    "min": "minimum",
    "max": "maximum",
    "band": "and",
    "bor": "or",
    "bxor": "xor",
}
"""torch's names, and the opcodes that fold two elements."""
BRIEF = 1e-3
"""Seconds that a collective may take before the next programs begin. As long as it is under way the device's thread
runs these, and Python lets that have its lock after 5 ms each time, where the caller goes on recording."""


def opcode_of(reduction: str) -> str:
    """The opcode by which elements are folded. Raises UnsupportedError for what the device has not."""
    if reduction not in REDUCTIONS:
        raise UnsupportedError(f"collectives on xla do not reduce by {reduction}", hint=f"by {', '.join(REDUCTIONS)}")
    return REDUCTIONS[reduction]


class Engine(Protocol):
    """What moves values between `size` processes, of which this one is number `rank`."""

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    @property
    def rank(self) -> int:
        """Which one this is."""
        ...

    def all_gather(self, value: Value) -> Value:
        """[...] of each -> [size, ...]."""
        ...

    def all_to_all(self, value: Value) -> Value:
        """[size, ...], of which each process gets the part of its number -> the parts of all."""
        ...

    def all_reduce(self, value: Value, opcode: str) -> Value:
        """Folded in the order of the processes."""
        ...

    def reduce_scatter(self, value: Value, opcode: str) -> Value:
        """[size, ...] -> the part of this process's number, folded."""
        ...

    def broadcast(self, value: Value, root: int) -> Value:
        """The value of process `root`."""
        ...


@dataclass(frozen=True)
class Programs:
    """By HLO, on the devices of the processes, in this order."""

    devices: tuple[int, ...]
    rank: int

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.devices)

    @cached_property
    def _compiled(self) -> dict[tuple[Shape, str, str], LoadedExecutable]:
        return {}

    def _run(self, operand: Shape, result: Shape, what: str, value: Value, opcode: str = "add") -> Value:
        """`what` is an opcode with its attributes; operand and result are reshaped to what it takes."""
        case = value.type.shape, what, opcode
        program = self._compiled.get(case)
        if program is None:
            program = self._compiled[case] = self._program(operand, result, *case)
        buffer = buffer_of(value).buffer
        assert buffer is not None
        (results,) = program.launch([[buffer]])
        device_client.throttle(results.done)
        results.done.wait(BRIEF)
        return Value(array_type(value.type.dtype, result.dims), results.buffers[0])

    def _program(self, operand: Shape, result: Shape, argument: Shape, what: str, opcode: str) -> LoadedExecutable:
        given, wanted, whole = (_text(s) for s in (argument, result, operand))
        scalar = _text(array_shape(operand.dtype, ()))
        opcode_name, _, attributes = what.partition(" ")
        inner = f"{_text(_result_of(opcode_name, operand, self.size))} {opcode_name}(o){attributes}"
        text = f"""HloModule {opcode_name.replace("-", "_")}, replica_count={self.size}
fold {{
  a = {scalar} parameter(0)
  b = {scalar} parameter(1)
  ROOT c = {scalar} {opcode}(a, b)
}}
ENTRY main {{
  x = {given} parameter(0)
  o = {whole} reshape(x)
  y = {inner}
  ROOT z = {wanted} reshape(y)
}}"""
        options = CompileOptions(self.size, device_assignment=tuple((device,) for device in self.devices))
        return device_client.client().compile(xloom.parse(text), options)

    def all_gather(self, value: Value) -> Value:
        """See Engine."""
        shape = value.type.shape
        one, all = (array_shape(shape.dtype, (n, *shape.dims)) for n in (1, self.size))
        return self._run(one, all, "all-gather , replica_groups={}, dimensions={0}", value)

    def all_to_all(self, value: Value) -> Value:
        """See Engine."""
        shape = value.type.shape
        return self._run(shape, shape, "all-to-all , replica_groups={}, dimensions={0}", value)

    def all_reduce(self, value: Value, opcode: str) -> Value:
        """See Engine."""
        shape = value.type.shape
        return self._run(shape, shape, "all-reduce , replica_groups={}, to_apply=fold", value, opcode)

    def reduce_scatter(self, value: Value, opcode: str) -> Value:
        """See Engine."""
        shape = value.type.shape
        part = array_shape(shape.dtype, shape.dims[1:])
        what = "reduce-scatter , replica_groups={}, dimensions={0}, to_apply=fold"
        return self._run(shape, part, what, value, opcode)

    def broadcast(self, value: Value, root: int) -> Value:
        """See Engine."""
        shape = value.type.shape
        members = [root, *(k for k in range(self.size) if k != root)]
        groups = ",".join(map(str, members))
        return self._run(shape, shape, f"collective-broadcast , replica_groups={{{{{groups}}}}}", value)


def _text(shape: Shape) -> str:
    return shape.to_text(layout=False)


def _result_of(opcode: str, operand: Shape, size: int) -> Shape:
    if opcode == "all-gather":
        return array_shape(operand.dtype, (size, *operand.dims[1:]))
    if opcode == "reduce-scatter":
        return array_shape(operand.dtype, (1, *operand.dims[1:]))
    return operand


def _stacked(g: Graph, *parts: Instruction) -> Instruction:
    return g.concat([g.reshape_to(part, (1, *part.shape.dims)) for part in parts], 0)


def _row(g: Graph, x: Instruction, number: int) -> Instruction:
    return g.reshape_to(g.slice_along(x, 0, number, number + 1), x.shape.dims[1:])


def _folded(g: Graph, a: Instruction, b: Instruction, opcode: str) -> Instruction:
    return getattr(g, opcode)(a, b)


def folded(a: Value, b: Value, opcode: str) -> Value:
    """Two values of one type, element by element."""
    return apply(_folded, a, b, opcode)


class Group:
    """The collectives of a group as torch means them, on values."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self.size, self.rank = engine.size, engine.rank

    def all_reduce(self, value: Value, reduction: str) -> Value:
        """The elements of all members, folded."""
        folded = self._of(value, lambda: self.engine.all_reduce(value, opcode_of(reduction)))
        return self._averaged(folded, reduction)

    def _averaged(self, value: Value, reduction: str) -> Value:
        return apply(_divided, value, self.size) if reduction == "avg" else value

    def _of(self, value: Value, move: Callable[[], Value]) -> Value:
        return value if self.size == 1 or not value.type.size else move()

    def all_gather(self, value: Value) -> Value:
        """[...] of each member -> [size, ...]."""
        dims = (self.size, *value.type.dims)
        if self.size == 1 or not value.type.size:
            return apply(_as, value, dims)
        return self.engine.all_gather(value)

    def reduce_scatter(self, value: Value, reduction: str) -> Value:
        """[size, ...] -> the part of this member's number, folded."""
        if self.size == 1 or not value.type.size:
            return self._averaged(apply(_as, value, value.type.dims[1:]), reduction)
        return self._averaged(self.engine.reduce_scatter(value, opcode_of(reduction)), reduction)

    def all_to_all(self, value: Value) -> Value:
        """[size, ...] -> the parts with this member's number, of all members."""
        return self._of(value, lambda: self.engine.all_to_all(value))

    def broadcast(self, value: Value, root: int) -> Value:
        """The value that a member has."""
        return self._of(value, lambda: self.engine.broadcast(value, root))

    def exchange(self, value: Value, sent: Sequence[int], received: Sequence[int]) -> Value:
        """So many rows to each member, and from each; as many for all where nothing is said."""
        if sent or received:
            return self.uneven_all_to_all(value, sent, received)
        first, *rest = value.type.dims
        parts = shaped(value, (self.size, first // self.size, *rest))
        return shaped(self.all_to_all(parts), value.type.dims)

    def uneven_all_to_all(self, value: Value, sent: Sequence[int], received: Sequence[int]) -> Value:
        """Rows [sum(sent), ...] -> [sum(received), ...]: to and from each member so many. Waits for the longest."""
        longest = torch.tensor(max([*sent, *received], default=0), device="cpu")
        most = int(device_client.to_host(buffer_of(self.all_reduce(device_client.to_device(longest), "max"))).item())
        if not most:
            return apply(_as, value, (0, *value.type.dims[1:]))
        return apply(_unpadded, self.all_to_all(apply(_padded, value, tuple(sent), most)), tuple(received))


def _as(g: Graph, x: Instruction, dims: tuple[int, ...]) -> Instruction:
    if x.shape.size or not any(dims):
        return g.reshape_to(x, dims)
    return g.full(dims, 0, x.shape.dtype)


def _divided(g: Graph, x: Instruction, count: int) -> Instruction:
    dtype = x.shape.dtype
    if dtype.is_integer:
        return g.divide(x, g.expand(g.scalar(count, dtype), x.shape.dims))
    wide = g.widened(x)
    return g.cast(g.divide(wide, g.expand(g.scalar(count, wide.shape.dtype), x.shape.dims)), dtype)


def _padded(g: Graph, x: Instruction, counts: tuple[int, ...], most: int) -> Instruction:
    parts, at = [], 0
    for count in counts:
        part = g.slice_along(x, 0, at, at + count)
        at += count
        parts.append(g.pad_with(part, [(0, most - count), *[(0, 0)] * (x.shape.rank - 1)], 0))
    return _stacked(g, *parts)


def _unpadded(g: Graph, x: Instruction, counts: tuple[int, ...]) -> Instruction:
    rows = [g.slice_along(_row(g, x, k), 0, 0, count) for k, count in enumerate(counts)]
    return g.concat(rows, 0)


def zeros_like(value: Value) -> Value:
    """What members give that have nothing to give."""
    return apply(_zeros, value.type.dims, hlo_dtype(value.type.dtype))


def _zeros(g: Graph, dims: tuple[int, ...], dtype: Any) -> Instruction:
    return g.full(dims, 0, dtype)


def stacked(values: Sequence[Value]) -> Value:
    """[...] each -> [count, ...]."""
    return apply(_stacked, *values)


def rows(value: Value) -> list[Value]:
    """[count, ...] -> each [...]."""
    return [row(value, k) for k in range(value.type.dims[0])]


def row(value: Value, number: int) -> Value:
    """[count, ...] -> one [...]."""
    return apply(_row, value, number)


def joined(values: Sequence[Value]) -> Value:
    """One behind the other, along the first dimension."""
    return apply(_joined, *values)


def _joined(g: Graph, *parts: Instruction) -> Instruction:
    return g.concat(parts, 0)


def split(value: Value, counts: Sequence[int]) -> list[Value]:
    """The opposite."""
    ends = list(accumulate(counts))
    return [apply(_between, value, end - count, end) for count, end in zip(counts, ends, strict=True)]


def _between(g: Graph, x: Instruction, start: int, end: int) -> Instruction:
    return g.slice_along(x, 0, start, end)


def shaped(value: Value, dims: Sequence[int]) -> Value:
    """The same elements in other dimensions."""
    return value if value.type.dims == tuple(dims) else apply(_as, value, tuple(dims))
