"""MLIR text, bytecode and portable artifacts that were not converted before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from xloom.errors import XloomError
from xloom.hlo.module import Module
from xloom.hlo.proto.decoder import decode
from xloom.stablehlo.apart import converted_apart
from xloom.stablehlo.bindings import Bindings, load_bindings, on_deep_stack
from xloom.stablehlo.bytecode_strings import has_only_text
from xloom.stablehlo.diagnostics import parse_error
from xloom.stablehlo.layouts import keep_layouts, restore_layouts
from xloom.stablehlo.legalize import legalize, make_static, restore_constants
from xloom.stablehlo.memory_kinds import place_results
from xloom.stablehlo.shardings import has_shardings, propagate, restore_shardings
from xloom.stablehlo.translate import NotTranslatedError, translated
from xloom.stablehlo.translate.locations import UNNAMED

_ARTIFACT = b"StableHLO_v"  # the producer, which follows the bytecode's first numbers


def converted(program: str | bytes, file: str, *, trusted: bool) -> Module:
    """The module of a program, converted in another process unless it is text or `trusted`. Raises ParseError."""
    if isinstance(program, bytes) and not trusted and not has_only_text(program):
        return _module(converted_apart(program, file), file)
    bindings = load_bindings()
    return on_deep_stack(lambda: _converted(bindings, program, file), len(program))


def proto_of(program: bytes, file: str) -> bytes:
    """The HloModuleProto of bytecode, converted here. Raises ParseError."""
    bindings = load_bindings()
    return on_deep_stack(lambda: _to_proto(bindings, program, file), len(program))


def _module(proto: bytes, file: str) -> Module:
    module = decode(proto)
    restore_constants(module)
    restore_shardings(module)
    restore_layouts(module)
    for instruction in module.instructions:
        if instruction.metadata.source_file == UNNAMED:
            instruction.metadata = replace(instruction.metadata, source_file=file)
    return module


_CONTEXT_BYTES = 1 << 20
_contexts: list[tuple[Any, int]] = []
"""MLIR contexts for the next conversions, as to make one takes half of a small program's time, and how much they read.

A context keeps every constant and name that it has met: so none is used for more than a megabyte of programs.
"""


@contextmanager
def _borrowed_context(bindings: Bindings, size: int) -> Iterator[Any]:
    """A context for a program of `size` bytes, which no other thread uses meanwhile, nor anybody after an error."""
    try:
        context, used = _contexts.pop()
    except IndexError:
        context, used = bindings.new_context(), 0
        context.allow_unregistered_dialects = True
    yield context
    if used + size <= _CONTEXT_BYTES:
        _contexts.append((context, used + size))


def _converted(bindings: Bindings, program: str | bytes, file: str) -> Module:
    """The module of a program: by our own rules, or else as jaxlib has it."""
    with _borrowed_context(bindings, len(program)) as context, context:
        module = _legal(bindings, context, program, file)
        try:
            found = translated(bindings, module, file)
        except NotTranslatedError:
            with _explained(program, file):
                proto = _exported(bindings, module)
            return _module(proto, file)
    restore_shardings(found)
    restore_layouts(found)
    return found


def _to_proto(bindings: Bindings, program: str | bytes, file: str) -> bytes:
    with _borrowed_context(bindings, len(program)) as context, context:
        module = _legal(bindings, context, program, file)
        with _explained(program, file):
            return _exported(bindings, module)


@contextmanager
def _explained(program: str | bytes, file: str) -> Iterator[None]:
    """What jaxlib raises as ParseError."""
    try:
        yield
    except XloomError:
        raise
    except Exception as error:  # MLIRError and XlaRuntimeError have no common base that is public
        raise parse_error(error, program, file) from None


def _legal(bindings: Bindings, context: Any, program: str | bytes, file: str) -> Any:
    """A program in MLIR, ready to become HLO."""
    with _explained(program, file):
        module = _load(bindings, context, program)
        place_results(bindings, module)
        keep_layouts(bindings, module)
        text = _text(module)
        if has_shardings(text):
            propagate(bindings, module, text)
            text = _text(module)
        legalize(bindings, module, text)
        return module


def _exported(bindings: Bindings, module: Any) -> bytes:
    """The HloModuleProto that jaxlib makes of a module."""
    try:
        computation = bindings.to_computation(bindings.to_bytecode(module))
    except Exception:
        if "dynamic" not in _text(module):
            raise
        make_static(bindings, module)
        computation = bindings.to_computation(bindings.to_bytecode(module))
    return computation.as_serialized_hlo_module_proto()


def _text(module: Any) -> str:
    return module.operation.get_asm(large_elements_limit=16, assume_verified=True)


def _load(bindings: Bindings, context: Any, program: str | bytes) -> Any:
    if isinstance(program, bytes) and _ARTIFACT in program[:64]:
        return bindings.read_artifact(context, program)
    return bindings.ir.Module.parse(program)
