"""MLIR text, bytecode and portable artifacts -> HLO."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from xloom.errors import MissingExtraError, ParseError, Span
from xloom.hlo.module import Module
from xloom.hlo.proto import decode

_PLACE = re.compile(r'"<?[^"]*>?":(\d+):(\d+)')
# in this order: what the converter to HLO does not take is rewritten to what it does
_PIPELINES = (
    ("!quant", "func.func(stablehlo-legalize-quant-to-math)"),
    ("chlo.", "func.func(chlo-legalize-to-stablehlo)"),
)


@lru_cache(maxsize=1)
def _bindings() -> Any:
    """jaxlib's modules. Raises MissingExtraError when jax is not installed."""
    try:
        from jax._src.interpreters import mlir as jax_mlir
        from jax._src.lib import _jax  # pyright: ignore[reportPrivateImportUsage]
        from jaxlib.mlir import ir, passmanager
        from jaxlib.mlir.dialects import stablehlo
    except ImportError as error:
        raise MissingExtraError(
            f"StableHLO is read through jaxlib, which is not installed ({error})",
            hint="pip install 'xloom[jax]'",
        ) from error
    stablehlo.register_stablehlo_passes()

    class Bindings:
        context = staticmethod(jax_mlir.make_ir_context)
        to_bytecode = staticmethod(jax_mlir.module_to_bytecode)
        to_computation = staticmethod(_jax.mlir.mlir_module_to_xla_computation)
        artifact = staticmethod(stablehlo.deserialize_portable_artifact)

    Bindings.ir = ir  # type: ignore[attr-defined]
    Bindings.passes = passmanager  # type: ignore[attr-defined]
    return Bindings


def from_stablehlo(program: str | bytes, file: str = "<mlir>") -> Module:
    """The HLO module of a StableHLO (and CHLO) program: MLIR text, MLIR bytecode, or a portable artifact.

    The entry is `@main`. Raises ParseError with the place in the text, MissingExtraError without jaxlib.
    """
    bindings = _bindings()
    context = bindings.context()
    context.allow_unregistered_dialects = True
    with context:
        try:
            module = _load(bindings, context, program)
            text = str(module.operation.get_asm(large_elements_limit=16))
            for mark, pipeline in _PIPELINES:
                if mark in text:
                    bindings.passes.PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
            computation = bindings.to_computation(bindings.to_bytecode(module))
        except Exception as error:  # MLIRError and XlaRuntimeError have no common base that is public
            raise _as_parse_error(error, program, file) from None
    return decode(computation.as_serialized_hlo_module_proto())


def _load(bindings: Any, context: Any, program: str | bytes) -> Any:
    if isinstance(program, bytes) and b"StableHLO_v" in program[:64]:
        return bindings.artifact(context, program)
    return bindings.ir.Module.parse(program)


def _as_parse_error(error: Exception, program: str | bytes, file: str) -> ParseError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = next((line for line in lines if "error:" in line), lines[0] if lines else type(error).__name__)
    place = _PLACE.search(str(error))
    span = None
    if place and isinstance(program, str):
        line, column = int(place[1]), int(place[2])
        source = program.splitlines()
        span = Span(line, column, source[line - 1] if 0 < line <= len(source) else "", file)
    return ParseError(message.rpartition("error: ")[2] or message, span=span, where="StableHLO")
