"""LLVM IR that reads and writes what is remembered of a step or a program: words, each by itself and in no order."""

from __future__ import annotations

from dataclasses import dataclass

WORDS = 16
"""Of a record, as many as two cache lines have, which processors fetch in pairs."""


@dataclass(frozen=True)
class Record:
    """Records of the type `%name`, of which a function has one at `%pointer`."""

    name: str
    pointer: str
    fields: tuple[str, ...]

    @property
    def declaration(self) -> str:
        """The type, and what its words are."""
        return f"; {', '.join(self.fields)}\n%{self.name} = type {{ {', '.join(['i64'] * WORDS)} }}"

    def load(self, name: str, field: str) -> str:
        """Has a field's word in `%name`, and where it is in `%name.place`."""
        return f"""{self._place(f"{name}.place", field)}
  %{name} = load atomic i64, ptr %{name}.place monotonic, align 8"""

    def store(self, value: str, field: str, name: str) -> str:
        """Writes a field; where it is, is in `%name`."""
        return f"""{self._place(name, field)}
  store atomic i64 {value}, ptr %{name} monotonic, align 8"""

    def _place(self, name: str, field: str) -> str:
        return f"%{name} = getelementptr %{self.name}, ptr %{self.pointer}, i64 0, i32 {self.fields.index(field)}"
