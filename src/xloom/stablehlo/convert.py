"""MLIR text, bytecode and portable artifacts -> HLO."""

from __future__ import annotations

from xloom.compilation_cache.cache import Cache, key_of
from xloom.errors import ParseError
from xloom.hlo.garbage_collection import without_collector
from xloom.hlo.lazy_module import LazyModule, declared
from xloom.hlo.module import Module
from xloom.hlo.proto.decoder import decode
from xloom.stablehlo.bindings import load_bindings

declarations = Cache()
"""HloModuleProtos of what callers see of programs: to convert one takes milliseconds even if it is small."""

_BYTECODE = b"ML\xefR"


def from_stablehlo(program: str | bytes, file: str = "<mlir>", *, trusted: bool = False) -> Module:
    """The HLO module of a StableHLO (and CHLO) program: MLIR text, MLIR bytecode, or a portable artifact.

    The entry is `@main`. Bytecode that jaxlib could end the process for is converted in another one, unless it is
    `trusted`. Raises ParseError with the place in the text, MissingExtraError without jaxlib.
    """
    bindings = load_bindings()
    if isinstance(program, bytes) and not program.startswith(_BYTECODE):
        try:
            program = program.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ParseError("neither MLIR text nor MLIR bytecode", where=file) from error
    data = program.encode("utf-8", "surrogateescape") if isinstance(program, str) else program
    key = key_of(b"stablehlo", bindings.version.encode(), data)

    def read() -> Module:
        with without_collector():  # all that is made stays
            from xloom.stablehlo.conversion import converted  # what is known is not converted

            return converted(program, file, trusted=trusted)

    kept = declarations.get(key)
    if kept is not None:
        return LazyModule(key, decode(kept), read)
    module = read()
    declaration = declared(module)
    declarations.put(key, declaration.to_proto())
    return LazyModule(key, declaration, lambda: module)
