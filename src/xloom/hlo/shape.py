"""Shapes: an array's element type, dimensions and layout, or a tuple of shapes. Immutable."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from xloom.errors import ShapeError
from xloom.hlo import dtype as dt
from xloom.hlo.dtype import DType

UNBOUNDED = -(2**63)
"""The size that marks an unbounded dynamic dimension, printed as `?`."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How an array lies in memory; the fields are those of XLA's LayoutProto.

    `minor_to_major` lists the dimensions from the fastest-varying one. A tile dimension of `COMBINE` is printed `*`.
    """

    minor_to_major: tuple[int, ...]
    tiles: tuple[tuple[int, ...], ...] = ()
    tail_padding_alignment: int = 1
    index_type: DType | None = None
    pointer_type: DType | None = None
    element_size_in_bits: int = 0
    memory_space: int = 0
    split_configs: tuple[tuple[int, tuple[int, ...]], ...] = ()
    physical_shape: Shape | None = None
    metadata_prefix_bytes: int = 0

    def __str__(self) -> str:
        return f"{{{','.join(map(str, self.minor_to_major))}{self._annotations()}}}"

    def _annotations(self) -> str:
        out = []
        if self.tiles:
            body = (",".join("*" if d == COMBINE else str(d) for d in tile) for tile in self.tiles)
            out.append("T" + "".join(f"({b})" for b in body))
        if self.tail_padding_alignment != 1:
            out.append(f"L({self.tail_padding_alignment})")
        if self.index_type is not None:
            out.append(f"#({self.index_type.name})")
        if self.pointer_type is not None:
            out.append(f"*({self.pointer_type.name})")
        if self.element_size_in_bits:
            out.append(f"E({self.element_size_in_bits})")
        if self.memory_space:
            out.append(f"S({self.memory_space})")
        if self.split_configs:
            out.append("SC" + "".join(f"({d}:{','.join(map(str, s))})" for d, s in self.split_configs))
        if self.physical_shape is not None:
            out.append(f"P({self.physical_shape})")
        if self.metadata_prefix_bytes:
            out.append(f"M({self.metadata_prefix_bytes})")
        return ":" + "".join(out) if out else ""

    @property
    def is_default(self) -> bool:
        """True for dense row-major with nothing else said."""
        return self is default_layout(len(self.minor_to_major)) or self == default_layout(len(self.minor_to_major))


COMBINE = -(2**63)


@cache
def default_layout(rank: int) -> Layout:
    """Dense row-major."""
    return Layout(tuple(range(rank - 1, -1, -1)))


MOST_DEPTH = 200
"""Tuples in each other, at most: all that is done to shapes and values goes into them on Python's stack."""


class Shape:
    """The type of a value: an array, a tuple, a token, an opaque handle, or a buffer.

    `dims` are sizes; of a dynamic dimension (`dynamic[i]`) the upper bound, or UNBOUNDED. `elements` are a tuple's
    element shapes (or a buffer's one). Equality includes layout; `compatible` ignores it. `rank` is the number of
    dimensions, `size` that of an array's elements (at the bounds of dynamic dimensions); `is_array` is true unless it
    is a tuple, token, opaque or buffer, `is_dynamic` when a dimension of it, or of one of its elements, is dynamic.
    """

    __slots__ = (
        "_depth",
        "_hash",
        "_text",
        "_text_plain",
        "dims",
        "dtype",
        "dynamic",
        "elements",
        "is_array",
        "is_dynamic",
        "layout",
        "rank",
        "size",
    )

    def __init__(
        self,
        dtype: DType,
        dims: tuple[int, ...] = (),
        dynamic: tuple[bool, ...] = (),
        layout: Layout | None = None,
        elements: tuple[Shape, ...] = (),
    ):
        self.dtype = dtype
        self.dims = dims
        self.dynamic = dynamic if any(dynamic) else ()
        self.layout = layout
        self.elements = elements
        self.is_array: bool = dtype.is_array
        self.is_dynamic = bool(self.dynamic) or (bool(elements) and any([e.is_dynamic for e in elements]))
        self.rank = len(dims)
        self.size = math.prod(dims)
        self._depth = 1 + max(e._depth for e in elements) if elements else 0
        if self._depth > MOST_DEPTH:
            raise ShapeError(f"tuples nested too deeply: more than {MOST_DEPTH}", hint="use fewer, wider tuples")
        self._hash = hash((dtype.value, dims, self.dynamic, layout, elements))
        self._text: str | None = None
        self._text_plain: str | None = None

    # -- what it is
    @property
    def is_tuple(self) -> bool:
        """True for a tuple shape, the empty tuple included."""
        return self.dtype is dt.tuple_

    @property
    def is_token(self) -> bool:
        """True for `token[]`."""
        return self.dtype is dt.token

    @property
    def is_scalar(self) -> bool:
        """True for an array of rank 0."""
        return self.dtype.is_array and not self.dims

    @property
    def major_to_minor(self) -> tuple[int, ...]:
        """An array's dimensions from the one with the largest stride to the fastest-varying one."""
        return tuple(range(self.rank)) if self.layout is None else self.layout.minor_to_major[::-1]

    @property
    def is_permuted(self) -> bool:
        """True for an array of static size whose elements lie in another order than row-major."""
        layout = self.layout
        if layout is None or layout.is_default or self.is_dynamic:
            return False
        return self.major_to_minor != tuple(range(self.rank))

    def in_memory(self) -> Shape:
        """The row-major array that is byte for byte the array of this shape; of a tuple that of each element."""
        if self.is_tuple:
            return tuple_shape([e.in_memory() for e in self.elements])
        return array_shape(self.dtype, [self.dims[d] for d in self.major_to_minor]) if self.is_permuted else self

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays in it, elements unpacked; 0 for tokens."""
        if self.elements:
            return sum(e.nbytes for e in self.elements)
        return self.size * self.dtype.bytes if self.is_array else 0

    def is_dynamic_dimension(self, dimension: int) -> bool:
        """True when the size of `dimension` is known only at run time."""
        return bool(self.dynamic) and self.dynamic[dimension]

    # -- variants
    def with_dtype(self, dtype: DType) -> Shape:
        """The same dimensions of another element type; a layout's element size is dropped."""
        return array_shape(dtype, self.dims, self.dynamic, without_element_size(self).layout)

    def with_layout(self, layout: Layout | None) -> Shape:
        """The same array shape in another layout (None: no layout)."""
        return Shape(self.dtype, self.dims, self.dynamic, layout, self.elements)

    def with_layouts_of(self, other: Shape) -> Shape:
        """The same shape, its arrays in the layouts of another shape of the same structure."""
        if self.elements:
            elements = (a.with_layouts_of(b) for a, b in zip(self.elements, other.elements, strict=True))
            return Shape(self.dtype, (), (), None, tuple(elements))
        return self.with_layout(other.layout)

    def with_default_layout(self) -> Shape:
        """The same shape, every array in it dense row-major."""
        if self.elements:
            return Shape(self.dtype, (), (), None, tuple(e.with_default_layout() for e in self.elements))
        return self.with_layout(default_layout(self.rank)) if self.is_array else self

    def static(self) -> Shape:
        """The same shape with every dynamic dimension at its bound."""
        if self.elements:
            return Shape(self.dtype, (), (), None, tuple(e.static() for e in self.elements))
        return Shape(self.dtype, self.dims, (), self.layout) if self.dynamic else self

    # -- parts
    def leaves(self) -> Iterator[tuple[tuple[int, ...], Shape]]:
        """Index and shape of every non-tuple part, in pre-order."""
        if not self.is_tuple:
            yield (), self
        for k, element in enumerate(self.elements if self.is_tuple else ()):
            for index, leaf in element.leaves():
                yield (k, *index), leaf

    def at(self, index: Sequence[int]) -> Shape:
        """The part at a tuple index. Raises ShapeError when there is none."""
        shape = self
        for k in index:
            if not shape.is_tuple or not 0 <= k < len(shape.elements):
                raise ShapeError(
                    f"{self} has no element at index {{{','.join(map(str, index))}}}",
                    hint="() is the shape itself, (1,) its second element, (1, 0) the first of that",
                )
            shape = shape.elements[k]
        return shape

    def compatible(self, other: Shape, *, ignore_fp_precision: bool = False) -> bool:
        """True when both are equal but for layout (and dynamic marks, as in XLA's ShapeUtil::Compatible)."""
        if self is other:
            return True
        if self.elements or other.elements:
            return (
                self.dtype is other.dtype
                and len(self.elements) == len(other.elements)
                and all(
                    a.compatible(b, ignore_fp_precision=ignore_fp_precision)
                    for a, b in zip(self.elements, other.elements, strict=True)
                )
            )
        same = self.dtype is other.dtype or (ignore_fp_precision and self.dtype.is_float and other.dtype.is_float)
        return same and self.dims == other.dims

    # -- text and identity
    def to_text(self, layout: bool = True) -> str:
        """HLO text, with or without layouts."""
        if layout:
            if self._text is None:
                self._text = self._spell(True)
            return self._text
        if self._text_plain is None:
            self._text_plain = self._spell(False)
        return self._text_plain

    def _spell(self, layout: bool) -> str:
        if self.dtype is dt.tuple_:
            out = []
            for k, e in enumerate(self.elements):
                out.append(f"{', ' if k else ''}{f'/*index={k}*/' if k and k % 5 == 0 else ''}{e.to_text(layout)}")
            return f"({''.join(out)})"
        if self.dtype is dt.buffer:
            return f"b({self.elements[0].to_text(layout)})"
        dims = ",".join(map(str, self.dims)) if not self.dynamic else ",".join(map(_dim, self.dims, self.dynamic))
        text = f"{self.dtype.name}[{dims}]"
        if layout and self.layout is not None:
            spelled = str(self.layout)
            if self.dims or spelled != "{}":
                text += spelled
        return text

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Shape)
            and self._hash == other._hash
            and self.dtype is other.dtype
            and self.dims == other.dims
            and self.dynamic == other.dynamic
            and self.layout == other.layout
            and self.elements == other.elements
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Shape, (self.dtype, self.dims, self.dynamic, self.layout, self.elements)


def _dim(size: int, dynamic: bool) -> str:
    if not dynamic:
        return str(size)
    return "?" if size == UNBOUNDED else f"<={size}"


@lru_cache(maxsize=65536)
def _dense(dtype: DType, dims: tuple[int, ...]) -> Shape:
    return Shape(dtype, dims, (), default_layout(len(dims)))


def array_shape(dtype: DType, dims: Sequence[int], dynamic: Sequence[bool] = (), layout: Layout | None = None) -> Shape:
    """An array shape; dense row-major unless a layout is given. Raises ShapeError for a negative size."""
    dims = tuple(dims)
    if layout is None and not any(dynamic):
        if dims and min(dims) < 0:
            raise _negative(dtype, dims)
        return _dense(dtype, dims)
    if any(d < 0 and not (dynamic and dynamic[k] and d == UNBOUNDED) for k, d in enumerate(dims)):
        raise _negative(dtype, dims)
    return Shape(dtype, dims, tuple(dynamic), default_layout(len(dims)) if layout is None else layout)


DType.array_shape = array_shape


def without_element_size(shape: Shape) -> Shape:
    """The shape with unpacked elements: no `E(4)` in its layouts."""
    if shape.elements:
        return Shape(shape.dtype, (), (), None, tuple(map(without_element_size, shape.elements)))
    if shape.layout is None or not shape.layout.element_size_in_bits:
        return shape
    return shape.with_layout(replace(shape.layout, element_size_in_bits=0))


def tuple_shape(*elements: Shape | Iterable[Shape]) -> Shape:
    """The shape of a tuple: `tuple_shape(a, b)` and `tuple_shape([a, b])` are the same."""
    shapes: list[Shape] = []
    for element in elements:
        if isinstance(element, Shape):
            shapes.append(element)
        elif len(elements) == 1 and isinstance(element, Iterable):
            shapes = [*element]
        else:
            raise _no_shape(element)
    for shape in shapes:
        if not isinstance(shape, Shape):
            raise _no_shape(shape)
    return Shape(dt.tuple_, (), (), None, tuple(shapes))


def _no_shape(value: object) -> ShapeError:
    hint = f"a scalar's is xl.{value}[()], an array's xl.{value}[2, 3]" if isinstance(value, DType) else ""
    return ShapeError(f"a tuple's shape has shapes, found {value!r}", hint=hint)


def _negative(dtype: DType, dims: tuple[int, ...]) -> ShapeError:
    text = f"{dtype.name}[{','.join(map(str, dims))}]"
    return ShapeError(f"negative size in {text}", hint="a dimension of unknown size is UNBOUNDED, and dynamic")


def results_shape(shapes: Sequence[Shape]) -> Shape:
    """The shape alone if there is one, else their tuple. Raises ShapeError when there is none."""
    if not shapes:
        raise ShapeError("an operation needs at least one operand", hint="tuple() makes a result of nothing")
    return shapes[0] if len(shapes) == 1 else tuple_shape(shapes)


def buffer_shape(element: Shape) -> Shape:
    """The shape of a mutable buffer that holds an array of shape `element` (text: `b(f32[2])`)."""
    return Shape(dt.buffer, (), (), None, (element,))


token_shape = Shape(dt.token)
opaque_shape = Shape(dt.opaque)
