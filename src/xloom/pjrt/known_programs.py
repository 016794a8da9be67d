"""What is kept of programs that were compiled before as they came, so that their modules need not be decoded again."""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass

from xloom.compilation_cache.cache import Cache, key_of
from xloom.cpu.entry.collective_sites import CollectiveSite
from xloom.hlo.lazy_module import declared, identity_of
from xloom.hlo.module import Module
from xloom.hlo.proto.decoder import decode
from xloom.pjrt.collectives import Exchanges
from xloom.pjrt.execution_mode import ExecutionMode
from xloom.pjrt.options import CompileOptions

_programs = Cache(1 << 20)


@dataclass(frozen=True)
class KnownProgram:
    """What would take its module to find out."""

    execution_mode: ExecutionMode
    """What suits it."""
    exchanges: Exchanges | None
    """What its devices exchange, if it is for several."""
    declaration: Module | None
    """What callers see of the module, if the options have changed it."""

    def to_bytes(self) -> bytes:
        """For `from_bytes`."""
        exchanges = self.exchanges and [list(map(astuple, self.exchanges.sites)), *self.exchanges[1:]]
        head = json.dumps([self.execution_mode.value.decode(), exchanges]).encode()
        return b"\n".join([head, b"" if self.declaration is None else declared(self.declaration).to_proto()])

    @staticmethod
    def from_bytes(data: bytes) -> KnownProgram:
        """What `to_bytes` has made."""
        head, _, proto = data.partition(b"\n")
        execution_mode, exchanges = json.loads(head)
        if exchanges is not None:
            sites, *others = exchanges
            exchanges = Exchanges([CollectiveSite.from_json(fields) for fields in sites], *others)
        return KnownProgram(ExecutionMode(execution_mode.encode()), exchanges, decode(proto) if proto else None)


@dataclass(frozen=True)
class Request:
    """A module that is not decoded and need not be, with its compile options."""

    identity: str
    changed: str
    """What stands for the module as the options change it."""
    key: str

    @staticmethod
    def of(module: Module, options: CompileOptions) -> Request | None:
        """The request for a module's program; None where the module is read anyway."""
        identity = identity_of(module)
        if identity is None or options.dump is not None:
            return None
        counts = options.num_replicas, options.num_partitions
        changes = options.use_spmd_partitioning, options.allow_excess_precision
        changed = f"{identity} {counts} {changes}"
        return Request(identity, changed, key_of(b"pjrt", changed.encode()))

    @property
    def known(self) -> KnownProgram | None:
        """The program; None where it was not compiled before."""
        data = _programs.get(self.key)
        return None if data is None else KnownProgram.from_bytes(data)

    def note(self, program: KnownProgram) -> None:
        """Keeps the program of the module."""
        _programs.put(self.key, program.to_bytes())
