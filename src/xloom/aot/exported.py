"""A program as an object file or a shared library, with its header."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xloom.aot.entry import native_code
from xloom.aot.header import header
from xloom.aot.interface import Interface, interface_of
from xloom.aot.lapack import Library, Routine, library_of, routine_of
from xloom.aot.linking import link
from xloom.aot.programs import program_of
from xloom.aot.tables import tables
from xloom.aot.threads import pool_code, tasks_code
from xloom.aot.typed_calls import typed_calls
from xloom.aot.weights import Weights
from xloom.cpu.entry.emitted_program import EmittedProgram
from xloom.cpu.runtime.serialized_executable import SerializedExecutable
from xloom.errors import LoweringError
from xloom.llvm.compiler_runtime import SYMBOLS, support_ir
from xloom.llvm.jit import object_code
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.target import Target, host_target, process_target, target_named
from xloom.thread_count import thread_count

_FUNCTIONS = ("create", "run", "message", "status_text", "destroy", "limit_threads", "use_threads", "interface")


@dataclass(frozen=True)
class SavedExport:
    """The files of an exported program."""

    program: Path
    header: Path
    weights: Path | None


class Exported:
    """A program compiled ahead of time, not yet written: `export(...)` makes it, `save` writes it."""

    def __init__(
        self,
        interface: Interface,
        origin: str,
        target: Target,
        threads: int,
        code: SerializedExecutable,
        program: EmittedProgram,
    ):
        self.interface = interface
        self.target = target
        self.threads = threads
        self._origin, self._code, self._program = origin, code, program

    def save(
        self,
        output: str | Path,
        *,
        header: str | Path | None = None,
        weights: str | Path | None = None,
        link_with: Sequence[str | Path] = (),
        include_dirs: Sequence[str | Path] = (),
        lapack: str | Path = "",
    ) -> SavedExport:
        """Writes a shared library, or an object file where `output` ends with .o, and a C header.

        The header is `<name>.h` in the same folder unless said otherwise. The constants are a part of the program, or
        with `weights` a file, which is mapped when the program is created. `link_with` are sources in C and C++, object
        files and libraries that define what custom calls call; sources find headers in `include_dirs`. `lapack` is
        LAPACK's library, for programs that call its routines: by name (openblas) or as a file; an object file needs
        none yet. Raises MissingCompilerError without a compiler or binutils, LoweringError without such a library, or
        with the linker's message.
        """
        output = Path(output)
        header = Path(header) if header is not None else output.with_name(f"{self.interface.name}.h")
        apart = Path(weights) if weights is not None else None
        library = self._lapack(lapack, output)
        with tempfile.TemporaryDirectory() as folder:
            file = apart or Path(folder) / "weights"
            laid = Weights.written(self._code.constants, file)
            exports = [f"{self.interface.name}_{name}" for name in _FUNCTIONS] + ["xloom_exported_interface"]
            link(
                self._objects(), self._tables(laid, apart is not None),
                typed_calls(self._program.native_calls, self.threads), None if apart else file, exports, output,
                [Path(each) for each in link_with], include_dirs, library,
            )  # fmt: skip
        header.write_text(self.header(apart.name if apart else ""))
        return SavedExport(output, header, apart)

    def header(self, weights: str = "") -> str:
        """The C header's text, of a program with its weights in the file `weights`, or in itself."""
        return header(
            self.interface,
            origin=self._origin,
            target=self.target.name if self.target.name != "host" else self.target.cpu,
            threads=self.threads,
            weights=weights,
            calls=sorted({name for name in self._targets() if routine_of(name) is None}),
            routines=[routine.symbol for routine in self._routines()],
        )

    def _targets(self) -> list[str]:
        return [call.registration.name for call in self._program.native_calls]

    def _routines(self) -> list[Routine]:
        """Of LAPACK, each once."""
        found = {routine.symbol: routine for routine in map(routine_of, self._targets()) if routine is not None}
        return [found[symbol] for symbol in sorted(found)]

    def _lapack(self, given: str | Path, output: Path) -> Library | None:
        routines = self._routines()
        if not routines:
            return None
        if given:
            return library_of(given, routines)
        if output.suffix == ".o":
            return None
        raise LoweringError(
            f"{self.interface.name} calls LAPACK's {', '.join(r.symbol for r in routines)}",
            hint="name the library that has them: --lapack openblas, or a file; in Python save(..., lapack=)",
        )

    @property
    def _has_typed_calls(self) -> bool:
        return any(call.site is not None for call in self._program.native_calls)

    def _objects(self) -> list[bytes]:
        objects = [*self._code.objects, pool_code(self.threads, self.target)]
        if self._has_typed_calls:
            objects.append(tasks_code(self.threads, self.target))
        if any(name.encode() in data for data in objects for name in SYMBOLS):
            objects.append(object_code(support_ir(), PassPipeline.LOOPS, self.target))
        return objects

    def _tables(self, weights: Weights, is_apart: bool) -> str:
        return tables(
            self.interface,
            self.target,
            threads=self.threads,
            arena_bytes=self._code.memory.temporary_bytes,
            weights=weights,
            is_apart=is_apart,
            aligned_results=self._code.aligned_results,
            calls=self._program.native_calls,
            failing=self._program.calls,
            has_tasks=self._has_typed_calls,
        )


def export(program: Any, args: Sequence[Any] = (), *, name: str = "", target: str = "", threads: int = 0) -> Exported:
    """Compiles a program ahead of time, to be called from C.

    `program` is a Module, the path of a file (HLO, StableHLO, or a .pt2 of torch.export), a function of JAX, an
    exported program of JAX or PyTorch, or a model of PyTorch; `args` are what functions and models are traced with,
    arrays or shapes with dtypes. Weights of a model of PyTorch, and what a function of JAX closes over, are constants
    of the program. `name` begins the names in C; `target` is the processor, as `xloom opt --target` has it; `threads`
    is the most that loops are cut for, as many as this machine has if it is 0.

    Raises LoweringError for what needs Python at run time, MissingExtraError without JAX or PyTorch.
    """
    found = program_of(program, args)
    chosen = target_named(target) if target else process_target()
    if chosen.triple != host_target().triple:
        raise LoweringError(
            f"programs for {chosen.triple} cannot be exported on {host_target().triple}",
            hint="export it on such a machine: the threads and the linker are this system's",
        )
    interface = interface_of(found.module, name or found.name, found.arguments, found.results)
    code, emitted = native_code(found.module, chosen)
    return Exported(interface, found.origin, chosen, threads or thread_count(), code, emitted)
