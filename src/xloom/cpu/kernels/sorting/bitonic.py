"""Bitonic sort of few vectors of integers, as text of an LLVM function that depends on no shape.

Within vectors, what is done in a step is data: which lane each is compared with, and which of the two gets the greater
value. The same few instructions do all steps, which LLVM compiles in a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from xloom.cpu.kernels.sorting.vector_text import BYTES, expanded, lanes, vector_names

MOST = 32
"""Vectors that it sorts."""


def bitonic_sort(bits: int, apart: bool) -> str:
    """`void network(ptr integers, i64 distance, i64 count)`, internal."""
    w = lanes(bits)
    sort_steps = list(_sort_lanes(w))
    steps = [*sort_steps, *_merge_lanes(w)]
    names = {
        **vector_names(bits, apart),
        "w": str(w.bit_length() - 1),
        "BYTES": str(BYTES),
        "BYTE_SHIFT": str(BYTES.bit_length() - 1),
        "HALF_SHIFT": str(BYTES.bit_length() - 2),
        "MOST": str(MOST),
        "LIMIT": str(MOST * w),
        "p": "si" if bits == 32 else "di",
        "MERGE": str(len(sort_steps)),
        "STEPS": str(len(steps)),
        "PARTNERS": ", ".join(f"<{w} x i{bits}> {_lane_list(w, bits, s.partner)}" for s in steps),
        "GREATER": ", ".join(f"i{w} {sum(1 << i for i in range(w) if i & s.bit)}" for s in steps),
        "REVERSED": _lane_list(w, 32, lambda i: w - 1 - i),
    }
    text = _TEXT.replace("@@STEPS", "\n  ".join(_STEP.replace("#", n) for n in "0123"))
    return expanded(text, names)


class _Step(NamedTuple):
    """Lanes in pairs: each one's partner, and the bit of a lane's number that says that it gets the greater value."""

    partner: Callable[[int], int]
    bit: int


def _sort_lanes(w: int) -> Iterator[_Step]:
    size = 2
    while size <= w:
        yield _Step(lambda i, last=size - 1: i ^ last, size // 2)
        yield from _merge_lanes(size // 2)
        size *= 2


def _merge_lanes(w: int) -> Iterator[_Step]:
    distance = w // 2
    while distance:
        yield _Step(lambda i, distance=distance: i ^ distance, distance)
        distance //= 2


def _lane_list(w: int, bits: int, lane: Callable[[int], int]) -> str:
    return f"<{', '.join(f'i{bits} {lane(i)}' for i in range(w))}>"


_STEP = """%y# = call `V` @llvm.x86.avx512.permvar.`p`.512(`V` %x#, `V` %partners)
  %l# = call `V` @llvm.umin.`s`(`V` %x#, `V` %y#)
  %g# = call `V` @llvm.umax.`s`(`V` %x#, `V` %y#)
  %z# = select `M` %greater, `V` %g#, `V` %l#"""

_TEXT = """
@partners.`m` = internal constant [`STEPS` x `V`] [`PARTNERS`]
@greater.`m` = internal constant [`STEPS` x i`W`] [`GREATER`]
declare `V` @llvm.x86.avx512.permvar.`p`.512(`V`, `V`)

; bitonic sort of at most `LIMIT`; vectors behind the last one are filled up
define internal void @network.`m`(ptr %a, i64 %distance, i64 %n) noinline nounwind {
entry:
  %buffer = alloca [`MOST` x `V`], align 64
  br label %double
double:
  %k = phi i64 [4, %entry], [%k2, %double]
  %k2 = shl i64 %k, 1
  %held = shl i64 %k, `w`
  %enough = icmp sge i64 %held, %n
  br i1 %enough, label %load, label %double
load:
  %v = phi i64 [0, %double], [%v2, %load]
  %at = shl i64 %v, `w`
  %rest = sub i64 %n, %at
  %mask = call `M` @first.`m`(i64 %rest)
  %from = getelementptr inbounds `E`, ptr %a, i64 %at
  %x = call `V` @take.some(ptr %from, i64 %distance, `M` %mask)
  %to = getelementptr inbounds `V`, ptr %buffer, i64 %v
  store `V` %x, ptr %to, align 64
  %v2 = add i64 %v, 1
  %more = icmp slt i64 %v2, %k
  br i1 %more, label %load, label %lanes

; within vectors: the steps that sort each of them, or those that do so after its half of a merge
lanes:
  %h = phi i64 [1, %load], [%h2, %cross]
  %begin = phi i64 [0, %load], [`MERGE`, %cross]
  %end = phi i64 [`MERGE`, %load], [`STEPS`, %cross]
  br label %four
four:
  %u = phi i64 [0, %lanes], [%u2, %stepped]
  %u.p0 = getelementptr inbounds `V`, ptr %buffer, i64 %u
  %u.p1 = getelementptr inbounds `V`, ptr %u.p0, i64 1
  %u.p2 = getelementptr inbounds `V`, ptr %u.p0, i64 2
  %u.p3 = getelementptr inbounds `V`, ptr %u.p0, i64 3
  %u.x0 = load `V`, ptr %u.p0, align 64
  %u.x1 = load `V`, ptr %u.p1, align 64
  %u.x2 = load `V`, ptr %u.p2, align 64
  %u.x3 = load `V`, ptr %u.p3, align 64
  br label %step
step:
  %s = phi i64 [%begin, %four], [%s2, %step]
  %x0 = phi `V` [%u.x0, %four], [%z0, %step]
  %x1 = phi `V` [%u.x1, %four], [%z1, %step]
  %x2 = phi `V` [%u.x2, %four], [%z2, %step]
  %x3 = phi `V` [%u.x3, %four], [%z3, %step]
  %s.partners = getelementptr inbounds `V`, ptr @partners.`m`, i64 %s
  %s.greater = getelementptr inbounds i`W`, ptr @greater.`m`, i64 %s
  %partners = load `V`, ptr %s.partners, align 64
  %bits = load i`W`, ptr %s.greater
  %greater = bitcast i`W` %bits to `M`
  @@STEPS
  %s2 = add i64 %s, 1
  %s.more = icmp slt i64 %s2, %end
  br i1 %s.more, label %step, label %stepped
stepped:
  store `V` %z0, ptr %u.p0, align 64
  store `V` %z1, ptr %u.p1, align 64
  store `V` %z2, ptr %u.p2, align 64
  store `V` %z3, ptr %u.p3, align 64
  %u2 = add i64 %u, 4
  %u.at = shl i64 %u2, `w`
  %u.more = icmp slt i64 %u.at, %n
  br i1 %u.more, label %four, label %level

; vectors with each other: blocks of h become blocks twice as long
level:
  %h2 = shl i64 %h, 1
  %h.at = shl i64 %h, `w`
  %merged = icmp sge i64 %h.at, %n
  br i1 %merged, label %store, label %flip
flip:
  %last0 = add i64 %h2, -1
  %last = shl i64 %last0, `BYTE_SHIFT`
  %pairs = shl i64 %k, `HALF_SHIFT`
  %h.above = mul i64 %h, -`BYTES`
  br label %flip.pair
flip.pair:
  %i = phi i64 [0, %flip], [%i2, %flip.pair]
  %i.high = and i64 %i, %h.above
  %p = add i64 %i, %i.high
  %q = xor i64 %p, %last
  %pp = getelementptr inbounds i8, ptr %buffer, i64 %p
  %pq = getelementptr inbounds i8, ptr %buffer, i64 %q
  %px = load `V`, ptr %pp, align 64
  %qx = load `V`, ptr %pq, align 64
  %qr = shufflevector `V` %qx, `V` poison, <`W` x i32> `REVERSED`
  %pl = call `V` @llvm.umin.`s`(`V` %px, `V` %qr)
  %ph = call `V` @llvm.umax.`s`(`V` %px, `V` %qr)
  %phr = shufflevector `V` %ph, `V` poison, <`W` x i32> `REVERSED`
  store `V` %pl, ptr %pp, align 64
  store `V` %phr, ptr %pq, align 64
  %i2 = add i64 %i, `BYTES`
  %i.more = icmp slt i64 %i2, %pairs
  br i1 %i.more, label %flip.pair, label %cross
cross:
  %d0 = phi i64 [%h, %flip.pair], [%d, %cross.pair]
  %d = lshr i64 %d0, 1
  %far = icmp sgt i64 %d, 0
  %d.bytes = shl i64 %d, `BYTE_SHIFT`
  %d.above = sub i64 0, %d.bytes
  br i1 %far, label %cross.pair, label %lanes
cross.pair:
  %j = phi i64 [0, %cross], [%j2, %cross.pair]
  %j.high = and i64 %j, %d.above
  %r = add i64 %j, %j.high
  %pr = getelementptr inbounds i8, ptr %buffer, i64 %r
  %pt = getelementptr inbounds i8, ptr %pr, i64 %d.bytes
  %rx = load `V`, ptr %pr, align 64
  %tx = load `V`, ptr %pt, align 64
  %rl = call `V` @llvm.umin.`s`(`V` %rx, `V` %tx)
  %rh = call `V` @llvm.umax.`s`(`V` %rx, `V` %tx)
  store `V` %rl, ptr %pr, align 64
  store `V` %rh, ptr %pt, align 64
  %j2 = add i64 %j, `BYTES`
  %j.more = icmp slt i64 %j2, %pairs
  br i1 %j.more, label %cross.pair, label %cross

store:
  %o = phi i64 [0, %level], [%o2, %store]
  %o.at = shl i64 %o, `w`
  %o.rest = sub i64 %n, %o.at
  %o.mask = call `M` @first.`m`(i64 %o.rest)
  %o.from = getelementptr inbounds `V`, ptr %buffer, i64 %o
  %o.x = load `V`, ptr %o.from, align 64
  %o.to = getelementptr inbounds `E`, ptr %a, i64 %o.at
  call void @put.some(`V` %o.x, ptr %o.to, i64 %distance, `M` %o.mask)
  %o2 = add i64 %o, 1
  %o.next = shl i64 %o2, `w`
  %o.more = icmp slt i64 %o.next, %n
  br i1 %o.more, label %store, label %done
done:
  ret void
}
"""
