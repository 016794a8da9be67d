"""HloModuleProto, the bytes in which XLA keeps and passes on modules."""

from __future__ import annotations

from xloom.hlo.proto.decoder import decode
from xloom.hlo.proto.encoder import encode

__all__ = ["decode", "encode"]
