"""PJRT_Buffer_Type and our element types."""

from __future__ import annotations

from xloom.hlo.dtype import DTYPES
from xloom.pjrt.capi.structs import BUFFER_TYPES

DTYPE = {number: DTYPES[name.lower()] for number, name in enumerate(BUFFER_TYPES.split()) if name != "INVALID"}
"""Our type by number."""

NUMBER = {dtype: number for number, dtype in DTYPE.items()}
"""The number by our type."""
