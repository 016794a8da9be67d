"""Functions of elements that code calls from many places: called indeed there, not written out each time.

Loops that LLVM makes vectors of call a second form of them, for as many elements as a vector has.
"""

from __future__ import annotations

import re

from xloom.llvm.module_partitioning import FUNCTION
from xloom.llvm.target import Target

_INLINED = "alwaysinline nounwind readnone"
_ELEMENTWISE = re.compile(
    r'define internal (?P<type>float|double|<\d+ x (?:float|double)>) @"(?P<name>[^"]+)"'
    rf"\((?P<parameters>[^)]*)\) {_INLINED}\n"
)
"""The first line of a function that does nothing but compute a number of others."""
_WORTH_ONCE = 100
"""Instructions that are not written again, from which on functions are called where there are no loops."""
_WORTH_IN_STEPS = 3000
"""The same in loops of the program, of single elements: each waits for others, and what a sine and a cosine share is
computed once where both are inlined (measured: 0.7 of the time for 24 of them)."""
_WORTH = 500
"""The same where there are, of f32 that is computed in f64.

Those are faster called, as two vectors of f64 are then computed side by side (measured: 0.95 to 1.6 times as fast, and
compiled in a third of the time or less); short functions would take up to half as long again.
"""
_VECTOR_BYTES = 32
"""Of the vectors that LLVM makes of loops, at most."""
_BYTES = {"float": 4, "double": 8}
_CALLED = "noinline nounwind willreturn memory(none)"
_STEPS = "\nwhile.head:\n"
"""Where a loop of the program begins, whose state is in memory."""
_METADATA = re.compile(r"^!(\d+) = ", re.MULTILINE)


def with_calls(text: str, target: Target, *, vectorise: bool = True) -> str:
    """LLVM IR `text` in which those functions of elements are called that would be long, inlined as often.

    Unless LLVM makes vectors of loops, what is called is as it is written.
    """
    vectors: list[str] = []
    functions = [match[0] for match in FUNCTION.finditer(text)]
    has_loops = " = phi " in text
    worth = _WORTH if has_loops else _WORTH_IN_STEPS if _STEPS in text else _WORTH_ONCE
    for function in functions:
        head = _ELEMENTWISE.match(function)
        if head is None or (has_loops and not ("float" in head["type"] and "double" in function)):
            continue
        call = f' call {head["type"]} @"{head["name"]}"('
        callers = [f for f in functions if call in f]
        if (sum(f.count(call) for f in callers) - 1) * function.count("\n") < worth:
            continue
        if "<" in head["type"] or not vectorise:
            text = text.replace(function, function.replace(_INLINED, _CALLED, 1), 1)
            continue
        lanes = min(_VECTOR_BYTES, target.registers.nbytes) // _BYTES[head["type"]]
        form = _Called(head, lanes if any(" = phi " in f for f in callers) else 0)
        text = text.replace(function, function.replace(f'@"{form.name}"', f'@"{form.inlined}"', 1) + form.scalar, 1)
        if form.lanes:
            vectors.append(f'ptr @"{form.vector_name}"')
            text += form.vector(max(map(int, _METADATA.findall(text)), default=-1) + 1)
    if vectors:  # which nothing calls until loops are vectorised
        text += f"@llvm.compiler.used = appending global [{len(vectors)} x ptr] [{', '.join(vectors)}]\n"
    return text


class _Called:
    """The forms of a function: one is inlined into the others, of which one is for a number, one for so many."""

    def __init__(self, head: re.Match[str], lanes: int):
        self.name, self._type, self.lanes = head["name"], head["type"], lanes
        self.inlined = f"{self.name}.inlined"
        self.vector_name = f"{self.name}.of{lanes}"
        self._arguments = [f"%a{k}" for k in range(head["parameters"].count("%"))]

    @property
    def scalar(self) -> str:
        """The function of a number, which says what its form for vectors is."""
        kind, given = self._type, ", ".join(f"{self._type} {a}" for a in self._arguments)
        kinds = "v" * len(self._arguments)
        variant = f"_ZGV_LLVM_N{self.lanes}{kinds}_{self.name}({self.vector_name})"
        attributes = f'{_CALLED} "vector-function-abi-variant"="{variant}"' if self.lanes else _CALLED
        return (
            f'define internal {kind} @"{self.name}"({given}) {attributes}\n{{\n'
            f'  %r = call {kind} @"{self.inlined}"({given})\n  ret {kind} %r\n}}\n'
        )

    def vector(self, hints: int) -> str:
        """The function of a vector: a loop over its lanes, of which LLVM makes one iteration.

        Metadata from number `hints` on are hints to it.
        """
        kind, many = self._type, f"<{self.lanes} x {self._type}>"
        lines = [f'define internal {many} @"{self.vector_name}"({_each(many, self._arguments)}) {_CALLED}']
        lines += ["{", "entry:", f"  %out = alloca {many}"]
        for a in self._arguments:
            lines += [f"  {a}.in = alloca {many}", f"  store {many} {a}, ptr {a}.in"]
        lines += ["  br label %lane", "lane:", "  %i = phi i64 [0, %entry], [%n, %lane]"]
        for a in self._arguments:
            lines.append(f"  {a}.at = getelementptr inbounds {kind}, ptr {a}.in, i64 %i")
            lines.append(f"  {a}.x = load {kind}, ptr {a}.at")
        given = _each(kind, [f"{a}.x" for a in self._arguments])
        lines += [
            f'  %r = call {kind} @"{self.inlined}"({given})',
            f"  %at = getelementptr inbounds {kind}, ptr %out, i64 %i",
            f"  store {kind} %r, ptr %at",
            "  %n = add nsw nuw i64 %i, 1",
            f"  %more = icmp ult i64 %n, {self.lanes}",
            f"  br i1 %more, label %lane, label %done, !llvm.loop !{hints}",
            "done:",
            f"  %o = load {many}, ptr %out",
            f"  ret {many} %o",
            "}",
            f"!{hints} = distinct !{{!{hints}, !{hints + 1}, !{hints + 2}}}",
            f'!{hints + 1} = !{{!"llvm.loop.unroll.disable"}}',
            f'!{hints + 2} = !{{!"llvm.loop.vectorize.width", i32 {self.lanes}}}',
        ]
        return "\n".join(["", *lines, ""])


def _each(kind: str, names: list[str]) -> str:
    return ", ".join(f"{kind} {name}" for name in names)
