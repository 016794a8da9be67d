"""LLVM IR that reads the structures that Python lays out."""

from __future__ import annotations

from xloom.llvm.struct_layout import StructLayout


def field(name: str, pointer: str, layout: StructLayout, field: str, kind: str = "i64") -> str:
    """Loads a field."""
    return f"""  %{name}.place = getelementptr i8, ptr %{pointer}, i64 {layout.offset(field)}
  %{name} = load {kind}, ptr %{name}.place"""


def row(name: str, table: str, index: str, layout: StructLayout) -> str:
    """The address of a row of a table of structures."""
    return f"  %{name} = getelementptr [{layout.size} x i8], ptr %{table}, i64 %{index}"
