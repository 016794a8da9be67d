"""Files with a program before and after what the compiler does to it, as XLA's options of the name `xla_dump_*` ask."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from xloom.hlo.module import Module
from xloom.pjrt.error import invalid
from xloom.pjrt.wire import Fields, embedded, fields, message, number

# fields of ExecutableBuildOptionsProto and DebugOptions
_DEBUG_OPTIONS = 3
_NUMBERS = {
    "xla_dump_to": 109,
    "xla_dump_hlo_module_re": 110,
    "xla_dump_hlo_as_text": 112,
    "xla_dump_hlo_as_proto": 113,
}
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
    def of(build: Fields, overrides: dict[str, str | int]) -> Dump | None:
        """What a build's options ask for, some of them overridden."""
        debug = message(build, _DEBUG_OPTIONS)

        def text(name: str) -> str:
            value = overrides.get(name, debug[_NUMBERS[name]][-1] if debug[_NUMBERS[name]] else b"")
            return value.decode() if isinstance(value, bytes) else str(value)

        def flag(name: str) -> bool:
            value = overrides.get(name, number(debug, _NUMBERS[name]))
            return value.lower() in ("1", "true") if isinstance(value, str) else bool(value)

        folder = text("xla_dump_to")
        forms = flag("xla_dump_hlo_as_text"), flag("xla_dump_hlo_as_proto")
        return Dump(folder, text("xla_dump_hlo_module_re"), *forms) if folder else None

    def write(self, before: Module, after: Module) -> None:
        """Writes the files of one program."""
        try:
            if not re.search(self.modules, before.name):
                return
        except re.error as error:
            raise invalid(f"xla_dump_hlo_module_re: {self.modules!r} is no regular expression: {error}") from None
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


def overrides_of(entries: list[int | bytes]) -> dict[str, str | int]:
    """Options by name, out of a map of OptionOverrideProtos; numbers with a point are not among ours."""
    found: dict[str, str | int] = {}
    for entry in entries:
        assert isinstance(entry, bytes)
        row = fields(entry)
        (name,) = row[1]
        assert isinstance(name, bytes)
        for kind, values in message(row, 2).items():
            value = values[-1]
            if kind in (1, 2, 3):
                found[name.decode()] = value.decode() if isinstance(value, bytes) else value
    return found
