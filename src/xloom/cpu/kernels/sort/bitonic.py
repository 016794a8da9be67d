"""Bitonic sort of vectors of integers, as text of LLVM functions that depend on no shape.

Blocks of a few vectors are sorted and merged in registers, each lane a column: most steps compare vectors as they are,
and only those between columns move lanes first. When a block has its last elements, columns become vectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernels.sort.exchanges import bitonic_merge, merge_exchange
from xloom.cpu.kernels.sort.vector_text import BYTES, DECLARED, HEADER, expanded, lanes, vector_names
from xloom.llvm.types import I64, POINTER, VOID

NETWORK = ir.FunctionType(VOID, [POINTER, I64])
MOST = 1024
"""Vectors that it sorts sooner than others do."""
_FEW_ROWS, _ROWS = 4, 16
"""Vectors of a block: of the only one where no more are needed, and of others."""


def network_symbol(bits: int) -> str:
    """`void network(ptr integers, i64 count)`: they begin where a vector may, and memory for `padded_count` of them."""
    return f"xloom.sort.network.u{bits}"


def padded_count(bits: int, count: int) -> int:
    """How many integers it may write: whole blocks of vectors."""
    block = _ROWS * lanes(bits)
    return -(-count // block) * block


@lru_cache(maxsize=4)
def network(bits: int) -> str:
    """A module that has the function."""
    w = lanes(bits)
    names = {
        **vector_names(bits),
        "NETWORK": network_symbol(bits),
        "w": str(w.bit_length() - 1),
        "FEW": str(_FEW_ROWS),
        "ROWS": str(_ROWS),
        "r": str(_ROWS.bit_length() - 1),
        "LEVELS": str(w.bit_length() - 1),
        "BYTES": str(BYTES),
        "BLOCK": str(_ROWS * BYTES),
        "LAST": str(w - 1),
        "LAST_ROW": str(_ROWS - 1),
        "REVERSED": _listed("i32", reversed(range(w))),
        "LOW": _listed(f"i{bits}", (k // 2 + k % 2 * w for k in range(w))),
        "HIGH": _listed(f"i{bits}", (k // 2 + k % 2 * w + w // 2 for k in range(w))),
        "p": {8: "qi", 16: "hi", 32: "si", 64: "di"}[bits],
        "q": {8: "qi", 16: "hi", 32: "d", 64: "q"}[bits],
    }
    text = DECLARED + _DECLARED + "".join(_block(bits, rows) for rows in (_FEW_ROWS, _ROWS)) + _TEXT
    return HEADER + expanded(text, names)


class _Step(NamedTuple):
    """Between columns, each in a lane: what makes a lane's number its partner's, and the bit of those that get more."""

    partner: int
    greater: int


def _steps(columns: Sequence[int]) -> Iterator[_Step]:
    """Of merges of 2, 4, 8 ... columns, whose numbers have these bits, the lowest first; and a merge without its first.

    The first of each is between columns and reversed ones.
    """
    for level, bit in enumerate(columns, 1):
        yield _Step(sum(columns[:level]), bit)
        yield from (_Step(b, b) for b in reversed(columns[: level - 1]))
    yield from (_Step(b, b) for b in reversed(columns))


def _block(bits: int, rows: int) -> str:
    """The function for so many vectors: what is different in each step between columns is data."""
    w = lanes(bits)
    columns = [1 << k for k in range(w.bit_length() - 1)]
    steps = list(_steps(columns))
    x, y, z = ([f"%{name}{k}" for k in range(rows)] for name in "xyz")
    load, sort, flip, step, within, store, turn = (_Lines(prefix) for prefix in "abcdefg")
    loaded = [load.loaded(k) for k in range(rows)]
    ordered = sort.merge_exchange(loaded)
    flipped = flip.between_columns("%flip.s", x, x[::-1])
    stepped = step.between_columns("%step.s", y, y)
    merged = within.bitonic_merge(y)
    zipped = turn.zipped(z)
    for k in range(rows):
        store.stored(z[k], k)
    parts = {
        "PARTNERS": ", ".join(f"`V` {_listed(f'i{bits}', (k ^ s.partner for k in range(w)))}" for s in steps),
        "GREATER": ", ".join(f"i{w} {sum(1 << k for k in range(w) if k & s.greater)}" for s in steps),
        "STEPS": len(steps),
        "MERGE": len(steps) - len(columns),
        "LOAD": load,
        "SORT": sort,
        "X": _phis(x, sort=ordered, again=merged),
        "FLIP": flip,
        "Y": _phis(y, load=loaded, flip=flipped, step=stepped),
        "STEP": step,
        "WITHIN": within,
        "Z": _phis(z, within=merged, turn=zipped),
        "TURNS": rows.bit_length() - 1,
        "TURN": turn,
        "STORE": store,
    }
    return re.sub("@@(\\w+)@@", lambda name: str(parts[name[1]]), _BLOCK.replace("#", str(rows)))


def _listed(kind: str, numbers: Iterable[int]) -> str:
    return f"<{', '.join(f'{kind} {n}' for n in numbers)}>"


def _phis(names: Sequence[str], **sources: Sequence[str]) -> str:
    values = ([f"[{values[k]}, %{label}]" for label, values in sources.items()] for k in range(len(names)))
    return "\n".join(f"  {name} = phi `V` {', '.join(v)}" for name, v in zip(names, values, strict=True))


class _Lines:
    """Instructions one after the other, whose results are numbered."""

    def __init__(self, prefix: str):
        self._prefix, self._lines = prefix, list[str]()

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def _add(self, text: str) -> str:
        name = f"%{self._prefix}{len(self._lines)}"
        self._lines.append(f"  {name} = {text}")
        return name

    def _pointer(self, k: int) -> str:
        return self._add(f"getelementptr inbounds `V`, ptr %block, i64 {k}")

    def loaded(self, k: int) -> str:
        """Vector number k of the block."""
        return self._add(f"load `V`, ptr {self._pointer(k)}, align `BYTES`")

    def stored(self, x: str, k: int) -> None:
        """Stores x as vector k."""
        self._lines.append(f"  store `V` {x}, ptr {self._pointer(k)}, align `BYTES`")

    def _ordered(self, x: str, y: str) -> tuple[str, str]:
        both = f"(`V` {x}, `V` {y})"
        return self._add(f"call `V` @llvm.umin.`s`{both}"), self._add(f"call `V` @llvm.umax.`s`{both}")

    def merge_exchange(self, xs: Sequence[str]) -> list[str]:
        """Vectors with their lanes in order."""
        out = list(xs)
        for d, p, r in merge_exchange(len(out)):
            for i in range(len(out) - d):
                if i & p == r:
                    out[i], out[i + d] = self._ordered(out[i], out[i + d])
        return out

    def bitonic_merge(self, xs: Sequence[str]) -> list[str]:
        """Vectors whose lanes are bitonic, with their lanes in order."""
        out = list(xs)
        for d in bitonic_merge(len(out)):
            for i in range(len(out)):
                if not i & d:
                    out[i], out[i + d] = self._ordered(out[i], out[i + d])
        return out

    def between_columns(self, step: str, xs: Sequence[str], ys: Sequence[str]) -> list[str]:
        """Lanes of xs after a step, given by its number, in which their partners are lanes of ys."""
        at = self._add(f"getelementptr inbounds `V`, ptr @partners{len(xs)}.`m`, i64 {step}")
        partners = self._add(f"load `V`, ptr {at}, align `BYTES`")
        at = self._add(f"getelementptr inbounds i`W`, ptr @greater{len(xs)}.`m`, i64 {step}")
        bits = self._add(f"load i`W`, ptr {at}")
        greater = self._add(f"bitcast i`W` {bits} to `M`")
        out = list[str]()
        for x, y in zip(xs, ys, strict=True):
            z = self._add(f"call `V` @llvm.x86.avx512.permvar.`p`.512(`V` {y}, `V` {partners})")
            low, high = self._ordered(x, z)
            out.append(self._add(f"select `M` {greater}, `V` {high}, `V` {low}"))
        return out

    def zipped(self, xs: Sequence[str]) -> list[str]:
        """Vectors of the lanes of one and one of the latter half in turn.

        Places, a lane's number below its vector's, are rotated by one bit.
        """
        order = [self._add(f"load `V`, ptr @zip{k}.`m`, align `BYTES`") for k in range(2)]
        pairs = zip(xs[: len(xs) // 2], xs[len(xs) // 2 :], strict=True)
        call = "call `V` @llvm.x86.avx512.vpermi2var.`q`.512"
        return [self._add(f"{call}(`V` {x}, `V` {half}, `V` {y})") for x, y in pairs for half in order]


_DECLARED = """
@zip0.`m` = internal constant `V` `LOW`
@zip1.`m` = internal constant `V` `HIGH`
declare `V` @llvm.x86.avx512.vpermi2var.`q`.512(`V`, `V`, `V`)
declare `V` @llvm.x86.avx512.permvar.`p`.512(`V`, `V`)
declare i64 @llvm.ctlz.i64(i64, i1)
"""
_BLOCK = """
@partners#.`m` = internal constant [@@STEPS@@ x `V`] [@@PARTNERS@@]
@greater#.`m` = internal constant [@@STEPS@@ x i`W`] [@@GREATER@@]

; sorts a block, or merges what is bitonic; when that is the last time, its columns become vectors
define internal void @block#.`m`(ptr %block, i1 %merges, i1 %last) noinline nounwind {
load:
@@LOAD@@
  br i1 %merges, label %next, label %sort
sort:
@@SORT@@
  br label %flip

; columns are compared with reversed ones
flip:
  %flip.s = phi i64 [0, %sort], [%end, %again]
  %flip.level = phi i64 [1, %sort], [%level2, %again]
@@X@@
@@FLIP@@
  %flip.s2 = add i64 %flip.s, 1
  %flip.end = add i64 %flip.s, %flip.level
  br label %next
next:
  %step.s = phi i64 [@@MERGE@@, %load], [%flip.s2, %flip], [%step.s2, %step]
  %end = phi i64 [@@STEPS@@, %load], [%flip.end, %flip], [%end, %step]
  %level = phi i64 [`LEVELS`, %load], [%flip.level, %flip], [%level, %step]
@@Y@@
  %more = icmp slt i64 %step.s, %end
  br i1 %more, label %step, label %within
step:
@@STEP@@
  %step.s2 = add i64 %step.s, 1
  br label %next
within:
@@WITHIN@@
  %level2 = add i64 %level, 1
  %sorted = icmp eq i64 %level, `LEVELS`
  %turns = select i1 %last, i64 @@TURNS@@, i64 0
  br i1 %sorted, label %done, label %again
again:
  br label %flip
done:
  %left = phi i64 [%turns, %within], [%left2, %turn]
@@Z@@
  %turning = icmp ne i64 %left, 0
  br i1 %turning, label %turn, label %store
turn:
@@TURN@@
  %left2 = add i64 %left, -1
  br label %done
store:
@@STORE@@
  ret void
}
"""
_TEXT = """
; the lesser ones of pairs of vectors to the front; elements of one side are compared in their order, or from the end on
define internal void @pairs.`m`(ptr %low, ptr %high, ptr %end) noinline nounwind {
entry:
  br label %pair
pair:
  %p = phi ptr [%low, %entry], [%p2, %pair]
  %q = phi ptr [%high, %entry], [%q2, %pair]
  %x = load `V`, ptr %p, align `BYTES`
  %y = load `V`, ptr %q, align `BYTES`
  %lesser = call `V` @llvm.umin.`s`(`V` %x, `V` %y)
  %greater = call `V` @llvm.umax.`s`(`V` %x, `V` %y)
  store `V` %lesser, ptr %p, align `BYTES`
  store `V` %greater, ptr %q, align `BYTES`
  %p2 = getelementptr inbounds i8, ptr %p, i64 `BYTES`
  %q2 = getelementptr inbounds i8, ptr %q, i64 `BYTES`
  %more = icmp ult ptr %q2, %end
  br i1 %more, label %pair, label %done
done:
  ret void
}
define internal void @mirrored.`m`(ptr %low, ptr %high, ptr %end) noinline nounwind {
entry:
  br label %pair
pair:
  %p = phi ptr [%low, %entry], [%p2, %pair]
  %q2 = phi ptr [%end, %entry], [%q, %pair]
  %q = getelementptr inbounds i8, ptr %q2, i64 -`BYTES`
  %x = load `V`, ptr %p, align `BYTES`
  %y = load `V`, ptr %q, align `BYTES`
  %z = shufflevector `V` %y, `V` poison, <`W` x i32> `REVERSED`
  %lesser = call `V` @llvm.umin.`s`(`V` %x, `V` %z)
  %greater = call `V` @llvm.umax.`s`(`V` %x, `V` %z)
  %turned = shufflevector `V` %greater, `V` poison, <`W` x i32> `REVERSED`
  store `V` %lesser, ptr %p, align `BYTES`
  store `V` %turned, ptr %q, align `BYTES`
  %p2 = getelementptr inbounds i8, ptr %p, i64 `BYTES`
  %more = icmp ugt ptr %q, %high
  br i1 %more, label %pair, label %done
done:
  ret void
}

; sorts blocks, or merges what is bitonic; as if there were more blocks, a power of 2, which stay behind all others
define internal void @blocks.`m`(ptr %a, i64 %blocks, i1 %merges, i1 %last) noinline nounwind {
entry:
  %single = icmp eq i64 %blocks, 1
  br i1 %single, label %one, label %more
one:
  call void @block`ROWS`.`m`(ptr %a, i1 %merges, i1 %last)
  ret void
more:
  %less = add i64 %blocks, -1
  %zeros = call i64 @llvm.ctlz.i64(i64 %less, i1 true)
  %place = xor i64 %zeros, 63
  %half = shl i64 1, %place
  %rest = sub i64 %blocks, %half
  %half.bytes = mul i64 %half, `BLOCK`
  %rest.bytes = mul i64 %rest, `BLOCK`
  %high = getelementptr inbounds i8, ptr %a, i64 %half.bytes
  %end = getelementptr inbounds i8, ptr %high, i64 %rest.bytes
  br i1 %merges, label %across, label %sort
sort:
  call void @blocks.`m`(ptr %a, i64 %half, i1 false, i1 false)
  call void @blocks.`m`(ptr %high, i64 %rest, i1 false, i1 false)
  %back = sub i64 0, %rest.bytes
  %low = getelementptr inbounds i8, ptr %high, i64 %back
  call void @mirrored.`m`(ptr %low, ptr %high, ptr %end)
  br label %merge
across:
  call void @pairs.`m`(ptr %a, ptr %high, ptr %end)
  br label %merge
merge:
  call void @blocks.`m`(ptr %a, i64 %half, i1 true, i1 %last)
  call void @blocks.`m`(ptr %high, i64 %rest, i1 true, i1 %last)
  ret void
}

; the last vectors are filled up with what goes to the end
define void @`NETWORK`(ptr %a, i64 %n) nounwind {
entry:
  %above = add i64 %n, `LAST`
  %needed = lshr i64 %above, `w`
  %few = icmp ule i64 %needed, `FEW`
  %above.rows = add i64 %needed, `LAST_ROW`
  %blocks = lshr i64 %above.rows, `r`
  %rows = shl i64 %blocks, `r`
  %vectors = select i1 %few, i64 `FEW`, i64 %rows
  %whole = lshr i64 %n, `w`
  br label %next
next:
  %v = phi i64 [%whole, %entry], [%v2, %fill]
  %more = icmp slt i64 %v, %vectors
  br i1 %more, label %fill, label %filled
fill:
  %at = shl i64 %v, `w`
  %rest = sub i64 %n, %at
  %mask = call `M` @first.`m`(i64 %rest)
  %p = getelementptr inbounds `V`, ptr %a, i64 %v
  %x = load `V`, ptr %p, align `BYTES`
  %y = select `M` %mask, `V` %x, `V` splat (`T` -1)
  store `V` %y, ptr %p, align `BYTES`
  %v2 = add i64 %v, 1
  br label %next
filled:
  br i1 %few, label %one, label %many
one:
  call void @block`FEW`.`m`(ptr %a, i1 false, i1 true)
  ret void
many:
  call void @blocks.`m`(ptr %a, i64 %blocks, i1 false, i1 true)
  ret void
}
"""
