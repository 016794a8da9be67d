"""Modules that were not compiled before, on their way to a client's compiler."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from xloom.cpu.compilation import note_key
from xloom.errors import LoweringError
from xloom.hlo.lazy_module import declaration_of
from xloom.hlo.module import Module
from xloom.passes.all_reduce_combiner import AllReduceCombiner
from xloom.passes.async_simplification import AsyncSimplification
from xloom.passes.partitioning import SpmdPartitioning, has_shardings
from xloom.passes.result_rounding import ResultRounding
from xloom.passes.row_major_entry import RowMajorEntry, has_permuted_entry
from xloom.pjrt.compiler import Compiler, CpuCompiler, Native, Program, SpmdNative
from xloom.pjrt.executable import Executable
from xloom.pjrt.known_programs import KnownProgram, Request
from xloom.pjrt.options import CompileOptions
from xloom.pjrt.transformations import is_transformed, transformed
from xloom.trace import span

if TYPE_CHECKING:
    from xloom.pjrt.client import Client


def compiled(client: Client, module: Module, options: CompileOptions, request: Request | None) -> Executable:
    """The program of one of the devices that a module is for; what it was is noted for the `request`."""
    original, module = module, changed(module, options)
    if is_transformed(client.platform_name):
        module = transformed(client.platform_name, module)
    executable = with_program(client, module, options)
    if request is not None:
        _note(request, executable, is_changed=module is not original)
    return executable


def changed(module: Module, options: CompileOptions) -> Module:
    """The module as its compile options change it: itself if they do not."""
    config = declaration_of(module).config
    if (config.replica_count, config.num_partitions) != (options.num_replicas, options.num_partitions):
        module = module.clone("")
        module.config.replica_count, module.config.num_partitions = options.num_replicas, options.num_partitions
    if options.use_spmd_partitioning and has_shardings(module):
        module = module.clone("")
        SpmdPartitioning().run(module)
        AsyncSimplification().run(module)  # no backend overlaps them, and texts show none
        AllReduceCombiner().run(module)
    if not options.allow_excess_precision:
        module = module.clone("")
        ResultRounding().run(module)
    return module


def with_program(client: Client, module: Module, options: CompileOptions) -> Executable:
    """The module as it is, compiled."""
    if options.dump is not None:
        options.dump.write(module, client.compiler.optimized(module))
    row_major = module
    if has_permuted_entry(module):
        row_major = module.clone("")
        RowMajorEntry().run(row_major)
    declaration = declaration_of(module)
    if type(client.compiler).takes is not Compiler.takes:
        from xloom.sim.unsupported import check_taken  # loads the simulator

        check_taken(row_major, client.platform_name, client.compiler.takes)
    # native code of our own tells more of its compilation itself
    is_own = isinstance(client.compiler, CpuCompiler)
    with nullcontext() if is_own else span(declaration.name, "compile"):
        program = _stepwise(client.compiler, row_major) if client.compare else client.compiler.compile(row_major)
    if not callable(getattr(program, "run", None)):
        gave = f"{type(client.compiler).__name__}.compile gave {program!r}, which has no run"
        raise LoweringError(gave, where=declaration.name, hint="it gives a Program: see xloom.pjrt.compiler")
    return Executable(module, options, program)


def _stepwise(compiler: Compiler, module: Module) -> Program:
    from xloom.pjrt.stepwise import Stepwise  # loads the simulator

    return Stepwise(compiler, module)


def _note(request: Request, executable: Executable, *, is_changed: bool) -> None:
    """Keeps what is to be known of a module's program, if this and the options are all that it depends on."""
    program, module = executable.program, executable.module
    if not isinstance(program, Native | SpmdNative) or not program.key or has_permuted_entry(module):
        return  # the last is served by a program on rows
    if note_key(request.changed if is_changed else request.identity, module, program.target, program.key):
        exchanges = executable.exchanges if isinstance(program, SpmdNative) else None
        request.note(KnownProgram(executable.execution_mode, exchanges, module if is_changed else None))
