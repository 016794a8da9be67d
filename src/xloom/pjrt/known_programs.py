"""Metadata of programs that were compiled before as they stood, so that their modules need not be decoded again."""

from __future__ import annotations

from dataclasses import dataclass

from xloom.compilation_cache.cache import Cache, key_of
from xloom.hlo.lazy_module import identity_of
from xloom.hlo.module import Module
from xloom.pjrt.hand_over import HandOver
from xloom.pjrt.options import CompileOptions

_hand_overs = Cache(1 << 20)


@dataclass(frozen=True)
class Request:
    """A module that is not decoded and need not be, with its compile options."""

    identity: str
    key: str

    @staticmethod
    def of(module: Module, options: CompileOptions) -> Request | None:
        """The request for a module's program; None where the module is read anyway."""
        identity = identity_of(module)
        if identity is None or options.dump is not None:
            return None
        counts = options.num_replicas, options.num_partitions
        changes = options.use_spmd_partitioning, options.allow_excess_precision
        return Request(identity, key_of(b"pjrt", identity.encode(), repr((counts, changes)).encode()))

    @property
    def hand_over(self) -> HandOver | None:
        """What suits the program; None where it was not compiled before."""
        data = _hand_overs.get(self.key)
        return None if data is None else HandOver(data)

    def note(self, hand_over: HandOver) -> None:
        """Keeps what suits the program, that of the module as it stood."""
        _hand_overs.put(self.key, hand_over.value)
