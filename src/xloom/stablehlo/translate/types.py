"""MLIR's types as shapes, its attributes as plain values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from xloom.hlo import dtype as dt
from xloom.hlo.dtype import DTYPES, DType
from xloom.hlo.literal import Literal
from xloom.hlo.shape import Shape, tuple_shape
from xloom.stablehlo.translate.rules import NotTranslatedError

_ELEMENTS = {
    "i1": "pred", "i2": "s2", "i4": "s4", "i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64",
    "ui2": "u2", "ui4": "u4", "ui8": "u8", "ui16": "u16", "ui32": "u32", "ui64": "u64",
    "f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64", "complex<f32>": "c64", "complex<f64>": "c128",
    "f8E4M3FN": "f8e4m3fn", "f8E5M2": "f8e5m2", "f8E4M3B11FNUZ": "f8e4m3b11fnuz", "f8E4M3FNUZ": "f8e4m3fnuz",
    "f8E5M2FNUZ": "f8e5m2fnuz", "f8E4M3": "f8e4m3", "f8E3M4": "f8e3m4", "f4E2M1FN": "f4e2m1fn",
    "f8E8M0FNU": "f8e8m0fnu",
}  # fmt: skip
"""HLO's names of element types by MLIR's."""
_DENSE = re.compile(r"dense<(.*)> : ", re.S)
_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


class Types:
    """Shapes by type, each made once."""

    def __init__(self, ir: Any):
        self._ir = ir
        self._shapes: dict[Any, Shape] = {}

    def shape(self, kind: Any) -> Shape:
        """The shape of a type. Raises NotTranslatedError for what is no plain array, tuple or token."""
        found = self._shapes.get(kind)
        if found is None:
            found = self._shapes[kind] = self._made(kind)
        return found

    def _made(self, kind: Any) -> Shape:
        if isinstance(kind, self._ir.RankedTensorType):
            element = _ELEMENTS.get(str(kind.element_type))
            if element is None or not kind.has_static_shape or kind.encoding is not None:
                raise NotTranslatedError(f"type {kind}")
            return Shape(DTYPES[element], tuple(kind.shape)).with_default_layout()
        if isinstance(kind, self._ir.TupleType):
            return tuple_shape([self.shape(kind.get_type(k)) for k in range(kind.num_types)])
        if str(kind) == "!stablehlo.token":
            return Shape(dt.token)
        raise NotTranslatedError(f"type {kind}")


def ints(attribute: Any) -> tuple[int, ...]:
    """A list of integers."""
    return tuple(attribute)


def literal(operation: Any, shape: Shape) -> tuple[Literal, bool]:
    """The value of a constant; of one whose elements are all equal a scalar, and True."""
    if not shape.size:
        return Literal(shape, np.empty(shape.dims, shape.dtype.numpy)), False
    try:
        attribute = operation.attributes["value"]
        is_splat = attribute.is_splat and bool(shape.dims)
        array = np.asarray(attribute)
    except TypeError:  # a type that NumPy has not
        array, is_splat = _read(operation.get_asm(), shape)
    if is_splat:
        shape, array = Shape(shape.dtype).with_default_layout(), array.ravel()[:1].reshape(())
    return Literal(shape, np.array(array, shape.dtype.numpy)), is_splat


def _read(text: str, shape: Shape) -> tuple[np.ndarray, bool]:
    """The elements of a constant as it is printed, or one of all that are equal."""
    found = _DENSE.search(text)
    if found is None:
        raise NotTranslatedError(text)
    digits = found[1]
    if digits.startswith('"0x'):
        if shape.dtype.bits < 8:
            raise NotTranslatedError(f"packed {shape}")
        data = np.frombuffer(bytes.fromhex(digits[3:-1]), shape.dtype.numpy)
    else:
        data = _from_digits(_NUMBER.findall(digits), shape.dtype)
    if data.size == shape.size:
        return data.reshape(shape.dims), False
    if data.size != 1:
        raise NotTranslatedError(text)
    return data, True


def _from_digits(digits: list[str], dtype: DType) -> np.ndarray:
    part = np.dtype(f"f{dtype.bits // 16}") if dtype.is_complex else dtype.numpy
    numbers = np.array([_number(d, part) for d in digits], part)
    return numbers.view(dtype.numpy)


def _number(digits: str, dtype: np.dtype) -> Any:
    if digits.startswith("0x"):  # its bits
        return np.array(int(digits, 16), f"u{dtype.itemsize}").view(dtype)[()]
    return np.float64(digits).astype(dtype)
