"""Element types: XLA's PrimitiveType, one object each.

Names, enum values and bit widths follow XLA's `xla_data.proto`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from xloom.hlo.shape import Shape


class Kind(Enum):
    """What arithmetic an element type has."""

    PRED = "pred"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    COMPLEX = "complex"
    NONE = "none"


class DType:
    """An element type. `dtype[dims]` makes a shape: `f32[2, 3]`, and `f32[()]` a scalar.

    Attributes: `name` as HLO text spells it; `value`, XLA's PrimitiveType number; `bits` per element (pred: 8 in
    memory); `numpy`, the NumPy dtype (from ml_dtypes where NumPy has none), None for token, opaque and tuple.
    """

    __slots__ = ("_numpy", "bits", "kind", "name", "value")

    array_shape: ClassVar[Callable[[DType, tuple[int, ...]], Shape]]
    """What `dtype[dims]` makes: set by `hlo/shape.py`, which lies above and is part of `import xloom`."""

    def __init__(self, name: str, value: int, bits: int, kind: Kind, numpy: object = None):
        self.name = name
        self.value = value
        self.bits = bits
        self.kind = kind
        self._numpy = None if numpy is None else np.dtype(numpy)  # type: ignore[call-overload]

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype. Raises TypeError for types without arrays (token, opaque, tuple, buffer)."""
        if self._numpy is None:
            raise TypeError(f"{self.name} has no NumPy dtype")
        return self._numpy

    @property
    def is_array(self) -> bool:
        """True for types that have elements, so not for token, opaque, tuple and buffer."""
        return self._numpy is not None

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers; not for pred."""
        return self.kind is Kind.SIGNED or self.kind is Kind.UNSIGNED

    @property
    def is_float(self) -> bool:
        """True for real floating point types."""
        return self.kind is Kind.FLOAT

    @property
    def is_complex(self) -> bool:
        """True for c64 and c128."""
        return self.kind is Kind.COMPLEX

    @property
    def bytes(self) -> int:
        """Bytes of one element in an unpacked array (at least 1)."""
        return max(1, self.bits // 8)

    @property
    def mantissa_bits(self) -> int:
        """Bits of a float's significand that are stored: all but the first."""
        return int(ml_dtypes.finfo(self.numpy).nmant)

    @property
    def real(self) -> DType:
        """The type of the real part: f32 for c64, f64 for c128, itself otherwise."""
        return {"c64": f32, "c128": f64}.get(self.name, self)

    def __getitem__(self, dims: int | tuple[int, ...]) -> Shape:
        return DType.array_shape(self, (dims,) if isinstance(dims, int) else tuple(dims))

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype, (self.name,)


_P, _S, _U, _F, _C, _N = Kind.PRED, Kind.SIGNED, Kind.UNSIGNED, Kind.FLOAT, Kind.COMPLEX, Kind.NONE

pred = DType("pred", 1, 8, _P, np.bool_)
s1 = DType("s1", 30, 1, _S, ml_dtypes.int1)
s2 = DType("s2", 26, 2, _S, ml_dtypes.int2)
s4 = DType("s4", 21, 4, _S, ml_dtypes.int4)
s8 = DType("s8", 2, 8, _S, np.int8)
s16 = DType("s16", 3, 16, _S, np.int16)
s32 = DType("s32", 4, 32, _S, np.int32)
s64 = DType("s64", 5, 64, _S, np.int64)
u1 = DType("u1", 31, 1, _U, ml_dtypes.uint1)
u2 = DType("u2", 27, 2, _U, ml_dtypes.uint2)
u4 = DType("u4", 22, 4, _U, ml_dtypes.uint4)
u8 = DType("u8", 6, 8, _U, np.uint8)
u16 = DType("u16", 7, 16, _U, np.uint16)
u32 = DType("u32", 8, 32, _U, np.uint32)
u64 = DType("u64", 9, 64, _U, np.uint64)
f16 = DType("f16", 10, 16, _F, np.float16)
f32 = DType("f32", 11, 32, _F, np.float32)
bf16 = DType("bf16", 16, 16, _F, ml_dtypes.bfloat16)
f64 = DType("f64", 12, 64, _F, np.float64)
f8e5m2 = DType("f8e5m2", 19, 8, _F, ml_dtypes.float8_e5m2)
f8e4m3 = DType("f8e4m3", 28, 8, _F, ml_dtypes.float8_e4m3)
f8e4m3fn = DType("f8e4m3fn", 20, 8, _F, ml_dtypes.float8_e4m3fn)
f8e4m3b11fnuz = DType("f8e4m3b11fnuz", 23, 8, _F, ml_dtypes.float8_e4m3b11fnuz)
f8e3m4 = DType("f8e3m4", 29, 8, _F, ml_dtypes.float8_e3m4)
f8e5m2fnuz = DType("f8e5m2fnuz", 24, 8, _F, ml_dtypes.float8_e5m2fnuz)
f8e4m3fnuz = DType("f8e4m3fnuz", 25, 8, _F, ml_dtypes.float8_e4m3fnuz)
f4e2m1fn = DType("f4e2m1fn", 32, 4, _F, ml_dtypes.float4_e2m1fn)
f8e8m0fnu = DType("f8e8m0fnu", 33, 8, _F, ml_dtypes.float8_e8m0fnu)
f6e3m2fn = DType("f6e3m2fn", 35, 6, _F, ml_dtypes.float6_e3m2fn)
f6e2m3fn = DType("f6e2m3fn", 36, 6, _F, ml_dtypes.float6_e2m3fn)
c64 = DType("c64", 15, 64, _C, np.complex64)
c128 = DType("c128", 18, 128, _C, np.complex128)
tuple_ = DType("tuple", 13, 0, _N)
opaque = DType("opaque", 14, 0, _N)
token = DType("token", 17, 0, _N)
buffer = DType("buffer", 34, 0, _N)

DTYPES: dict[str, DType] = {d.name: d for d in list(globals().values()) if isinstance(d, DType)}
BY_VALUE: dict[int, DType] = {d.value: d for d in DTYPES.values()}
_BY_NUMPY: dict[np.dtype, DType] = {d.numpy: d for d in DTYPES.values() if d.is_array}


def dtype(name: str) -> DType:
    """The element type that HLO text spells `name`. Raises KeyError when there is none."""
    return DTYPES[name]


def from_numpy(numpy_dtype: np.dtype | type) -> DType:
    """The element type of a NumPy dtype. Raises TypeError when XLA has none (object, str, longdouble, ...)."""
    found = _BY_NUMPY.get(np.dtype(numpy_dtype))
    if found is None:
        raise TypeError(f"NumPy dtype {numpy_dtype} has no XLA element type")
    return found
