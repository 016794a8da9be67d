"""PJRT_Program: what is to be compiled."""

from __future__ import annotations

from xloom.hlo.lazy_module import changed_when_read
from xloom.hlo.module import Module
from xloom.hlo.proto.decoder import decode
from xloom.pjrt.capi.ctypes_structs import bytes_at, struct, text_at
from xloom.pjrt.error import invalid
from xloom.pjrt.options import CompileOptions
from xloom.stablehlo import from_stablehlo


def module_of(address: int, options: CompileOptions) -> Module:
    """The HLO module of a program in MLIR or HLO."""
    program = struct("PJRT_Program").from_address(address)
    form = text_at(program.format, program.format_size)
    code = bytes_at(program.code, program.code_size)
    if form == "mlir":
        return changed_when_read(from_stablehlo(code, trusted=True), "selects masked", _select_masked)
    if form == "hlo":
        return decode(code)
    raise invalid(
        f"programs are in the format mlir or hlo, not {form!r}", "give StableHLO as mlir, or a HloModuleProto as hlo"
    )


def _select_masked(module: Module) -> None:
    from xloom.pjrt.masked_products import select_masked  # which loads passes

    select_masked(module)
