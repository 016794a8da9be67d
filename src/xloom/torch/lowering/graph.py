"""What lowerings build with: HLO's opcodes, and the few steps that most of torch's operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xloom.errors import UnsupportedError
from xloom.hlo import dtype as dt
from xloom.hlo.attributes import Metadata, PaddingDimension, SliceDimension
from xloom.hlo.builder import ComputationBuilder
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import DType
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import Literal, literal
from xloom.hlo.shape import array_shape, tuple_shape
from xloom.torch.lowering.promotion import compute_type, result_type
from xloom.torch.lowering.scalar import Scalar

Number = bool | int | float | complex | Scalar
Value = Instruction | Number


class Graph:
    """Adds a torch operator's instructions to a computation. Every opcode is a method, as of a ComputationBuilder.

    `random_state` gives the random number generator's state, a u64[2] instruction, when an operator first asks for it;
    the state after that is `state`, which whoever runs the program keeps. `metadata` is stamped on every instruction.
    """

    def __init__(self, builder: ComputationBuilder, random_state: Callable[[], Instruction] | None = None):
        self.builder = builder
        self.metadata: Metadata | None = None
        self.state: Instruction | None = None
        self.read: set[int] | None = None
        """Of an operator with several results, those that anything reads; None where that is not known."""
        self.asserted: list[tuple[Instruction, str]] | None = None
        """What has to be true when the program has run, and the error otherwise; None where none is asked for."""
        self._random_state = random_state
        self._regions: dict[Any, Computation] = {}

    def __getattr__(self, name: str) -> Callable[..., Instruction]:
        method = getattr(self.builder, name)

        def emit(*operands: Instruction, **attributes: Any) -> Instruction:
            instruction = method(*operands, **attributes)
            if self.metadata is not None:
                instruction.metadata = self.metadata
            return instruction

        self.__dict__[name] = emit
        return emit

    # -- values
    def literal(self, array: np.ndarray | Literal) -> Instruction:
        """A constant array."""
        return self.constant(array if isinstance(array, Literal) else literal(np.asarray(array)))

    def scalar(self, value: Number | Instruction, dtype: DType) -> Instruction:
        """A number as an instruction of rank 0."""
        if isinstance(value, Scalar):
            value = value.instruction
        if isinstance(value, Instruction):
            return self.cast(value, dtype)
        with np.errstate(all="ignore"):
            return self.constant(literal(_as(value, dtype)))

    def full(self, dims: Sequence[int], value: Number | Instruction, dtype: DType) -> Instruction:
        """An array that has one value everywhere."""
        scalar = self.scalar(value, dtype)
        return self.broadcast(scalar, shape=array_shape(dtype, dims), dimensions=()) if dims else scalar

    def full_like(self, x: Instruction, value: Number | Instruction) -> Instruction:
        """The same, in the shape and dtype of x."""
        return self.full(x.shape.dims, value, x.shape.dtype)

    def cast(self, x: Value, dtype: DType) -> Instruction:
        """x as another type, as torch converts: complex to real drops the imaginary part, anything but 0 is true."""
        if not isinstance(x, Instruction):
            return self.scalar(x, dtype)
        own = x.shape.dtype
        if own is dtype:
            return x
        if dtype is dt.pred:
            return self.compare(x, self.full_like(x, 0), direction="NE")
        if own.is_complex and not dtype.is_complex:
            return self.cast(self.real(x), dtype)
        if own.is_float and dtype.is_integer and dtype.bits < 32:  # by way of s64, so that it wraps
            return self.cast(self.cast(x, dt.s64), dtype)
        return self.convert(x, shape=array_shape(dtype, x.shape.dims))

    def iota_along(self, dims: Sequence[int], dim: int, dtype: DType = dt.s64) -> Instruction:
        """Counts up along one dimension."""
        return self.iota(shape=array_shape(dtype, dims), iota_dimension=dim)

    # -- shapes
    def expand(self, x: Instruction, dims: Sequence[int]) -> Instruction:
        """x repeated to `dims`, aligned at the last dimension; dimensions of size 1 stretch."""
        own, dims = x.shape.dims, tuple(dims)
        if own == dims:
            return x
        start = len(dims) - len(own)
        kept = [k for k, size in enumerate(own) if size == dims[start + k]]
        if len(kept) < len(own):
            x = self.reshape_to(x, [own[k] for k in kept])
        return self.broadcast(x, shape=array_shape(x.shape.dtype, dims), dimensions=[start + k for k in kept])

    def reshape_to(self, x: Instruction, dims: Sequence[int]) -> Instruction:
        """The same elements in row-major order under other dimensions."""
        dims = tuple(dims)
        return x if x.shape.dims == dims else self.reshape(x, shape=array_shape(x.shape.dtype, dims))

    def permute(self, x: Instruction, order: Sequence[int]) -> Instruction:
        """Result dimension i is dimension order[i] of x."""
        return x if list(order) == list(range(len(order))) else self.transpose(x, dimensions=order)

    def slice_along(self, x: Instruction, dim: int, start: int, limit: int, stride: int = 1) -> Instruction:
        """x[start:limit:stride] along one dimension."""
        dims = list(x.shape.dims)
        limit = max(start, limit)
        if (start, limit, stride) == (0, dims[dim], 1):
            return x
        ranges = [SliceDimension(0, size) for size in dims]
        ranges[dim] = SliceDimension(start, limit, stride)
        dims[dim] = -(-(limit - start) // stride)
        return self.slice(x, shape=array_shape(x.shape.dtype, dims), slice=ranges)

    def pad_with(self, x: Instruction, padding: Sequence[tuple[int, ...]], value: Number | Instruction) -> Instruction:
        """(low, high[, interior]) a dimension; negative edges cut."""
        if not any(any(p) for p in padding):
            return x
        return self.pad(x, self.scalar(value, x.shape.dtype), padding=[PaddingDimension(*p) for p in padding])

    def concat(self, parts: Sequence[Instruction], dim: int) -> Instruction:
        """Joined along one dimension."""
        return parts[0] if len(parts) == 1 else self.concatenate(*parts, dimensions=(dim,))

    # -- arithmetic
    def broadcast_operands(self, *operands: Value, dtype: DType | None = None) -> list[Instruction]:
        """Instructions and numbers, promoted (or as `dtype`) and repeated to one shape."""
        dtype = dtype or result_type(*operands)
        dims = broadcast_dims(*[o.shape.dims for o in operands if isinstance(o, Instruction)])
        return [self.expand(self.cast(o, dtype), dims) for o in operands]

    def widened(self, x: Instruction) -> Instruction:
        """x in the type that torch computes in: f32 for the narrow floats."""
        return self.cast(x, compute_type(x.shape.dtype))

    def region(self, opcode: str, dtype: DType) -> Computation:
        """The computation of two scalars that a reduction applies."""
        key = (opcode, dtype)
        if key not in self._regions:
            b = self.subcomputation(opcode)
            scalar = array_shape(dtype, ())
            self._regions[key] = b.finish(b.emit(opcode, b.parameter(scalar), b.parameter(scalar)))
        return self._regions[key]

    def subcomputation(self, name: str) -> ComputationBuilder:
        """A builder of another computation of the module."""
        return ComputationBuilder(name, self.builder._module, source_lines=False)

    def subgraph(self, name: str, random_state: Callable[[], Instruction] | None = None) -> Graph:
        """A graph in another computation of the module; its parameters are made first."""
        return Graph(self.subcomputation(name), random_state)

    def reduce_with(self, x: Instruction, opcode: str, initial: Number, dims: Sequence[int]) -> Instruction:
        """x reduced over `dims`, which are left out of the result."""
        if not dims:
            return x
        dtype = x.shape.dtype
        return self.reduce(x, self.scalar(initial, dtype), dimensions=sorted(dims), to_apply=self.region(opcode, dtype))

    # -- random numbers
    def random_state(self) -> Instruction:
        """What the generator has come to: u64[2]."""
        if self.state is None:
            if self._random_state is None:
                hint = "draw random numbers outside, and pass them as an argument"
                raise UnsupportedError("this program has no random state", hint=hint)
            self.state = self._random_state()
        return self.state

    def random_bits(self, dims: Sequence[int], dtype: DType = dt.u32) -> Instruction:
        """Bits, each array from where the one before has left the generator."""
        state, shape = self.random_state(), array_shape(dtype, dims)
        both = self.rng_bit_generator(state, shape=tuple_shape([state.shape, shape]), algorithm="rng_three_fry")
        self.state = self.get_tuple_element(both, index=0)
        return self.get_tuple_element(both, index=1)


def broadcast_dims(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which all of `shapes` stretch."""
    dims = [1] * max((len(s) for s in shapes), default=0)
    for shape in shapes:
        start = len(dims) - len(shape)
        for k, size in enumerate(shape):
            if size != 1:
                dims[start + k] = size
    return tuple(dims)


def normalized(dim: int, rank: int) -> int:
    """A dimension counted from the front."""
    return dim + max(rank, 1) if dim < 0 else dim


def normalized_dims(dims: int | Sequence[int] | None, rank: int) -> list[int]:
    """Dimensions counted from the front, ascending; None, and for torch none at all, are all."""
    if dims is None or (not isinstance(dims, int) and not dims):
        return list(range(rank))
    return sorted({normalized(d, rank) for d in ((dims,) if isinstance(dims, int) else dims)} & set(range(rank)))


def _as(value: Any, dtype: DType) -> np.ndarray:
    # integers wrap and NaN is no error, as in torch
    if dtype.is_integer and not isinstance(value, complex):
        bits = dtype.bits
        value = int(value) if value == value and abs(value) != float("inf") else 0
        value &= (1 << bits) - 1
        if dtype.kind is dt.Kind.SIGNED and value >> (bits - 1):
            value -= 1 << bits
    if dtype.is_complex:
        return np.array(value, np.complex128).astype(dtype.numpy)
    return np.array(value.real if isinstance(value, complex) else value).astype(dtype.numpy)
