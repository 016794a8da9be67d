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

    def table(self, count: int) -> str:
        """A table of `count` records, a power of two, and `@remember.<pointer>s`, which makes it before the first use.

        Its memory is its own: so much beside code would not always be within its reach. Needs `@aligned_alloc`.
        """
        return f"""@{self.pointer}s = internal global ptr null

define internal void @remember.{self.pointer}s() {{
  %now = load ptr, ptr @{self.pointer}s
  %is.there = icmp ne ptr %now, null
  br i1 %is.there, label %leave, label %make
make:
  %made = call ptr @aligned_alloc(i64 128, i64 {count * 8 * WORDS})
  call void @llvm.memset.p0.i64(ptr %made, i8 0, i64 {count * 8 * WORDS}, i1 false)
  store ptr %made, ptr @{self.pointer}s
  br label %leave
leave:
  ret void
}}"""

    def found(self, count: int, begun: str) -> str:
        """The rest of a function that returns the record of `%key`; `begun` are the lines that begin a new one."""
        return f"""%mixed = mul i64 %key, -7046029254386353131
  %high = lshr i64 %mixed, {65 - count.bit_length()}
  %table = load ptr, ptr @{self.pointer}s
  %{self.pointer} = getelementptr %{self.name}, ptr %table, i64 %high
  {self.load("known", "key")}
  %same = icmp eq i64 %known, %key
  br i1 %same, label %leave, label %begin
begin:
  {begun}
  store atomic i64 %key, ptr %known.place monotonic, align 8
  br label %leave
leave:
  ret ptr %{self.pointer}"""

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
