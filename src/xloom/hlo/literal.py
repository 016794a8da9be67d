"""Literals: constant values, and their HLO text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xloom.errors import OutOfMemoryError, ShapeError
from xloom.hlo.dtype import DType, from_numpy
from xloom.hlo.shape import Shape, array_shape, tuple_shape


class Literal:
    """A value with a shape: `array` (NumPy, logical row-major order) or `elements` of a tuple.

    `array` is None for tokens, and for constants whose values a dump left out (`{...}`), where `elided` is True. Of a
    shape with dynamic dimensions, `array` holds the elements within the run-time sizes.
    """

    __slots__ = ("array", "elements", "elided", "shape")

    def __init__(
        self,
        shape: Shape,
        array: np.ndarray | None = None,
        elements: tuple[Literal, ...] = (),
        elided: bool = False,
    ):
        if array is not None and (array.dtype != shape.dtype.numpy or not _fits(array.shape, shape)):
            raise ShapeError(
                f"a {array.dtype} array of shape {array.shape} is not a literal of {shape}",
                hint="xl.literal(array) takes the array's own shape, xl.literal(array, dtype) converts it",
            )
        self.shape = shape
        self.array = array
        self.elements = elements
        self.elided = elided

    @property
    def value(self) -> np.ndarray:
        """The array; of an elided constant, zeros. Raises ShapeError for a tuple or token."""
        if self.array is not None:
            return self.array
        if not self.shape.is_array:
            raise ShapeError(f"a literal of {self.shape} is not an array", hint="a tuple's parts are in `elements`")
        return zeros(self.shape)

    def item(self) -> bool | int | float | complex:
        """The value of a one-element array as a Python scalar."""
        return self.value.reshape(())[()].item()

    def is_all(self, value: float) -> bool:
        """True when the array is not empty and every element equals `value` (and has its sign, for zero)."""
        array = self.array
        if array is None or array.size == 0:
            return False
        with np.errstate(all="ignore"):
            same = bool(np.all(array == np.asarray(value).astype(array.dtype)))
            if same and value == 0 and self.shape.dtype.is_float:
                return not np.any(np.signbit(array.astype(np.float64)))
        return same

    def identical(self, other: Literal) -> bool:
        """Same shape and same bits (so NaN equals itself, and -0 is not 0)."""
        if self.shape != other.shape or self.elided or other.elided:
            return self is other
        if self.shape.is_tuple:
            return all(a.identical(b) for a, b in zip(self.elements, other.elements, strict=True))
        return (
            self.array is None or self.array.tobytes() == other.array.tobytes()  # type: ignore[union-attr]
        )

    def to_text(self, *, oneline: bool = True, shapes: bool = False) -> str:
        """HLO text of the value, as XLA prints it; `shapes` puts the shape with layout before each array."""
        out: list[str] = []
        _print(self, oneline, shapes, out)
        return "".join(out)

    def __repr__(self) -> str:
        return f"Literal({self.shape} {self.to_text()})" if self.shape.size <= 32 else f"Literal({self.shape} ...)"


ADDRESSED = 1 << 47
"""Bytes that a process can address; for arrays of more NumPy has several errors."""


def zeros(shape: Shape) -> np.ndarray:
    """An array's zeros. Raises OutOfMemoryError when these are too many."""
    try:
        return np.zeros(shape.dims, shape.dtype.numpy)
    except (MemoryError, ValueError) as error:
        text = shape.to_text(layout=False)
        hint = "make it a parameter, or compute it by iota and broadcast"
        raise OutOfMemoryError(
            f"there is no memory for a constant {text} of {shape.nbytes} bytes", hint=hint
        ) from error


def _fits(dims: tuple[int, ...], shape: Shape) -> bool:
    if not shape.dynamic:
        return dims == shape.dims
    return len(dims) == shape.rank and all(
        d <= b if dyn else d == b for d, b, dyn in zip(dims, shape.dims, shape.dynamic, strict=True)
    )


def literal(value: object, dtype: DType | None = None) -> Literal:
    """A literal of `value`: an array, a scalar, or (nested) tuples of those.

    Python ints become s32, floats f32, bools pred, unless `dtype` is given. Raises TypeError for other values.
    """
    if isinstance(value, Literal):
        return value
    if isinstance(value, tuple):
        elements = tuple(literal(v, dtype) for v in value)
        return Literal(tuple_shape([e.shape for e in elements]), None, elements)
    array = np.asarray(value)
    if dtype is None and not isinstance(value, (np.ndarray, np.generic)):
        array = array.astype({"i": np.int32, "f": np.float32, "c": np.complex64}.get(array.dtype.kind, array.dtype))
    if dtype is not None:
        array = array.astype(dtype.numpy)
    return Literal(array_shape(from_numpy(array.dtype), array.shape), array)


# -- text ----------------------------------------------------------------------------------------------------------

_DIGITS = {  # decimal digits that tell every two neighbours apart: ceil(1 + p log10 2), p the significand's bits
    name: math.ceil(1 + p * math.log10(2))
    for name, p in {
        "bf16": 8,
        "f16": 11,
        "f8e5m2": 3,
        "f8e4m3": 4,
        "f8e4m3fn": 4,
        "f8e4m3b11fnuz": 4,
        "f8e3m4": 5,
        "f8e5m2fnuz": 3,
        "f8e4m3fnuz": 4,
        "f4e2m1fn": 2,
        "f8e8m0fnu": 1,
        "f6e3m2fn": 3,
        "f6e2m3fn": 4,
    }.items()
}
_MANTISSA = {"f64": 52, "f32": 23, "bf16": 7, "f16": 10, "f8e5m2": 2, "f8e4m3": 3, "f8e3m4": 4}


def _general(value: float, digits: int) -> str:
    """C's %.*g, which writes exponents as Python does but keeps -nan."""
    return f"{value:.{digits}g}"


def format_float(value: np.generic, dtype: DType) -> str:
    """The shortest of XLA's spellings that reads back as the same bits; `value` of `dtype`'s NumPy type."""
    as_float = float(value)
    if as_float != as_float:
        return _format_nan(value, dtype)
    if dtype.name == "f32":
        text = _general(as_float, 6)
        return text if np.float32(text) == value else _general(as_float, 9)
    if dtype.name == "f64":
        text = _general(as_float, 15)
        return text if float(text) == as_float else _general(as_float, 17)
    return _general(as_float, _DIGITS[dtype.name])


def _format_nan(value: np.generic, dtype: DType) -> str:
    # the sign and payload are part of the value: nan, -nan, nan(0x1)
    bits = int(np.asarray(value).view(f"u{dtype.bytes}")[()])
    sign = "-" if bits >> (dtype.bits - 1) & 1 and dtype.name not in ("f8e8m0fnu",) else ""
    if dtype.name.endswith("fnuz"):
        return "-nan" if sign else "nan"
    mantissa = _MANTISSA.get(dtype.name)
    if mantissa is None:
        return sign + "nan"
    payload = bits & ((1 << mantissa) - 1)
    return sign + "nan" if payload == 1 << (mantissa - 1) else f"{sign}nan(0x{payload:x})"


def format_scalars(array: np.ndarray, dtype: DType) -> list[str]:
    """The spelling of every element, in row-major order."""
    if dtype.name == "pred":
        return ["1" if v else "0" for v in array.ravel().tolist()] if array.ndim else [str(bool(array)).lower()]
    if dtype.is_integer:
        return [str(int(v)) for v in array.astype(np.int64 if dtype.name != "u64" else np.uint64).ravel().tolist()]
    if dtype.is_complex:
        part = dtype.real
        return [
            f"({format_float(v.real, part)}, {format_float(v.imag, part)})" for v in np.ascontiguousarray(array).flat
        ]
    return [format_float(v, dtype) for v in array.flat]


def _print(lit: Literal, oneline: bool, shapes: bool, out: list[str]) -> None:
    if lit.shape.is_tuple:
        out.append("( " if oneline else "(\n")
        for k, element in enumerate(lit.elements):
            if k:
                out.append(", " if oneline else ",\n")
            _print(element, oneline, shapes, out)
        out.append(" )" if oneline else "\n)")
        return
    if not lit.shape.is_array:
        out.append("token")
        return
    if shapes:
        out.append(str(lit.shape))
        if lit.shape.dynamic:
            out.append(f"({','.join(map(str, lit.value.shape))})")
        out.append(" ")
    array = lit.value
    scalars = iter(format_scalars(array, lit.shape.dtype))
    _braces(array.shape, 0, (), scalars, " " if oneline else "\n", oneline, out)


def _braces(dims: Sequence[int], level: int, index: tuple[int, ...], scalars, line: str, oneline: bool, out) -> None:
    rank = len(dims)
    if level == rank:
        out.append(next(scalars))
        return
    n, last = dims[level], level == rank - 1
    if rank == 1:
        opening, closing = "{", "}"
    elif last:
        space = " " if n > 1 else ""
        opening, closing = f"{'' if oneline else '  '}{{{space}", f"{space}}}"
    elif rank > 3 and level:
        opening, closing = f"{{ /*i{level - 1}={index[-1]}*/{line if n > 0 else ''}", f"{line}}}"
    else:
        opening, closing = f"{{{line}", f"{line}}}"
    out.append(opening)
    for i in range(n):
        _braces(dims, level + 1, (*index, i), scalars, line, oneline, out)
        if i < n - 1:
            out.append(", " if last else f",{line}")
    out.append(closing)


def nan_with_payload(dtype: DType, negative: bool, payload: int | None) -> Any:
    """The NaN of `dtype` that text such as `-nan(0x1)` names; payload None is the quiet NaN."""
    mantissa = _MANTISSA.get(dtype.name)
    if mantissa is None or (payload is None and not negative):
        value = np.asarray(np.nan).astype(dtype.numpy)
        return np.negative(value)[()] if negative else value[()]
    bits = 1 << (mantissa - 1) if payload is None else payload & ((1 << mantissa) - 1)
    exponent = ((1 << (dtype.bits - 1 - mantissa)) - 1) << mantissa
    sign = int(negative) << (dtype.bits - 1)
    return np.asarray(sign | exponent | bits, f"u{dtype.bytes}").view(dtype.numpy)[()]
