"""Functions of small loop nests, many to a module: of its own each would cost LLVM more to begin than to do.

Equal functions are made once, and modules stay of a size that several threads can share and that LLVM does quickly.
"""

from __future__ import annotations

import hashlib
import re

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Phase
from xloom.llvm.module_text import global_text
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.types import I64, POINTER, VOID

PLACEHOLDER = "xloom.small"
"""What functions are called until their content gives them a name."""
_LENGTH = 60_000
"""Characters of LLVM IR in a module."""
_NUMBER = re.compile(r"!(\d+)")


class BatchedModules:
    """`add` gives the name of a function, whose code is in one of `modules`."""

    def __init__(self) -> None:
        self.modules: dict[str, tuple[str, PassPipeline]] = {}
        """LLVM IR by name, and what is to be done to it; complete after `close`."""
        self._has_vectors = True
        self._known: dict[str, tuple[str, str]] = {}
        self._definitions: dict[str, str] = {}
        self._metadata: list[str] = []

    def add(self, module: ir.Module, phases: list[Phase], pointers: int, has_vectors: bool) -> tuple[str, str]:
        """A function of so many pointers that does `phases`; its name and that of the module that it will be in.

        If it has vectors where they pay, LLVM need not look for them.
        """
        function = ir.Function(module, ir.FunctionType(VOID, [POINTER] * pointers), PLACEHOLDER)
        function.attributes.add("nounwind")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        for phase in phases:
            b.call(module.globals[f"{phase.symbol}.body"], [*function.args, I64(0), I64(phase.count)])
        b.ret_void()
        tasks = {phase.symbol for phase in phases}  # what threads would call: none does
        definitions = {name: global_text(value) for name, value in module.globals.items() if name not in tasks}
        metadata = [str(line) for line in module.metadata]
        key = hashlib.sha256("".join([*definitions.values(), *metadata]).encode()).hexdigest()[:24]
        if key not in self._known:
            name = f"n{key}"
            self._known[key] = name, f"batch{len(self.modules)}"
            first = len(self._metadata)
            for symbol, text in definitions.items():
                symbol, text = symbol.replace(PLACEHOLDER, name), text.replace(PLACEHOLDER, name)
                self._definitions.setdefault(symbol, _renumbered(text, first))
            self._has_vectors &= has_vectors
            self._metadata += [_renumbered(line, first) for line in metadata]
            if sum(map(len, self._definitions.values())) > _LENGTH:
                self.close()
        return self._known[key]

    def close(self) -> None:
        """Ends the module that is being filled."""
        if self._definitions:
            head = "\n".join(str(ir.Module()).splitlines()[:3])
            text = "\n".join([head, *self._definitions.values(), *self._metadata, ""])
            pipeline = PassPipeline.VECTORS if self._has_vectors else PassPipeline.ROWS
            self.modules[f"batch{len(self.modules)}"] = text, pipeline
            self._definitions, self._metadata, self._has_vectors = {}, [], True


def _renumbered(text: str, first: int) -> str:
    return _NUMBER.sub(lambda m: f"!{int(m[1]) + first}", text) if first else text
