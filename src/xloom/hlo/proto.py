"""HloModuleProto, the bytes in which XLA keeps and passes on modules."""

from __future__ import annotations

from xloom.hlo.proto_decode import decode
from xloom.hlo.proto_encode import encode

__all__ = ["decode", "encode"]
