"""Files with a program before and after what the compiler does to it, as XLA's options of the name `xla_dump_*` ask."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from xloom.hlo.module import Module
from xloom.pjrt.debug_options import DebugOptions
from xloom.pjrt.error import invalid
from xloom.pjrt.protobuf_wire_format import embedded

_LONGEST_NAME = 255

_numbers = count()


@dataclass(frozen=True)
class Dump:
    """Where the files go, of which modules, and what is in them: text unless told otherwise; the folder `-` prints."""

    folder: str
    modules: str = ""
    as_text: bool = False
    as_proto: bool = False

    @staticmethod
    def of(options: DebugOptions) -> Dump | None:
        """What a build's options ask for."""
        folder = options.text("xla_dump_to")
        forms = (options.flag(f"xla_dump_hlo_as_{form}", default=False) for form in ("text", "proto"))
        return Dump(folder, options.text("xla_dump_hlo_module_re"), *forms) if folder else None

    def write(self, before: Module, after: Module) -> None:
        """Writes the files of one program."""
        try:
            if not re.search(self.modules, before.name):
                return
        except re.error as error:
            raise invalid(
                f"xla_dump_hlo_module_re: {self.modules!r} is no regular expression: {error}",
                "write one of Python's, such as jit_.*",
            ) from None
        start = f"module_{next(_numbers):04}.{before.name}"
        for stage, module in (("before_optimizations", before), ("xloom_after_optimizations", after)):
            for ending, data in self._forms(module):
                if self.folder == "-":
                    print(f"*** {start}.{stage} ***", data.decode(errors="replace"), sep="\n", flush=True)
                    continue
                folder = Path(self.folder)
                folder.mkdir(parents=True, exist_ok=True)
                name = f"{start[: _LONGEST_NAME - len(stage) - len(ending) - 2]}.{stage}.{ending}"
                (folder / name).write_bytes(data)

    def _forms(self, module: Module) -> Iterator[tuple[str, bytes]]:
        if self.as_text or not self.as_proto or self.folder == "-":
            yield "txt", f"{module}\n".encode("utf-8", "surrogateescape")
        if self.as_proto and self.folder != "-":
            yield "hlo.pb", embedded(1, module.to_proto())  # a HloProto
