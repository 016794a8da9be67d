"""Quicksort of unsigned integers by vectors, as text of LLVM functions that depend on no shape.

A partition reads whole vectors: lanes below the pivot are packed to the front of the array, all others go to scratch
memory, and from there behind them. Parts of few vectors are sorted by a bitonic network. After a partition
that splits off next to nothing, the next pivots halve the range of values, so that no input takes quadratic time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.emit.types import I1, I64, POINTER

_BYTES = 64
"""Of a vector."""
_MOST = 32
"""Vectors that the network sorts."""


def lanes(bits: int) -> int:
    """How many integers a vector holds; scratch memory is longer by so many than what is sorted."""
    return 8 * _BYTES // bits


SORT = ir.FunctionType(I64, [POINTER, I64, POINTER, I1, I1])


def sort_symbol(bits: int) -> str:
    """`i64 sort(ptr integers, i64 count, ptr scratch, i1 false, i1 once)`.

    With `once` it only brings some that are less than all others to the front, and says how many; when these are none,
    all may be sorted.
    """
    return f"xloom.sort.u{bits}"


@lru_cache(maxsize=2)
def quicksort(bits: int) -> str:
    """A module that has the function."""
    w = lanes(bits)
    sort_steps = list(_sort_lanes(w))
    steps = [*sort_steps, *_merge_lanes(w)]
    names = {
        **vector_names(bits),
        "w": str(w.bit_length() - 1),
        "BYTES": str(_BYTES),
        "BYTE_SHIFT": str(_BYTES.bit_length() - 1),
        "HALF_SHIFT": str(_BYTES.bit_length() - 2),
        "MOST": str(_MOST),
        "LIMIT": str(_MOST * w),
        "SORT": sort_symbol(bits),
        "p": "si" if bits == 32 else "di",
        "MERGE": str(len(sort_steps)),
        "STEPS": str(len(steps)),
        "PARTNERS": ", ".join(f"<{w} x i{bits}> {_lane_list(w, bits, s.partner)}" for s in steps),
        "GREATER": ", ".join(f"i{w} {sum(1 << i for i in range(w) if i & s.bit)}" for s in steps),
        "REVERSED": _lane_list(w, 32, lambda i: w - 1 - i),
    }
    return HEADER + expanded(
        DECLARED + _TEXT.replace("@@STEPS", "\n  ".join(_STEP.replace("#", n) for n in "0123")), names
    )


def vector_names(bits: int) -> dict[str, str]:
    """What `expanded` puts for the types of integers, vectors and masks, and for the parts of functions' names."""
    w = lanes(bits)
    return {
        "T": f"i{bits}",
        "V": f"<{w} x i{bits}>",
        "M": f"<{w} x i1>",
        "W": str(w),
        "A": str(bits // 8),
        "s": f"v{w}i{bits}",
        "m": str(bits),
    }


def expanded(text: str, names: Mapping[str, str]) -> str:
    """`text` with what stands between backquotes replaced."""
    return re.sub("`(\\w+)`", lambda name: names[name[1]], text)


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


HEADER = 'target triple = "unknown-unknown-unknown"\ntarget datalayout = ""\n'
DECLARED = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare `V` @llvm.umin.`s`(`V`, `V`)
declare `V` @llvm.umax.`s`(`V`, `V`)
declare `T` @llvm.vector.reduce.umin.`s`(`V`)
declare `T` @llvm.vector.reduce.umax.`s`(`V`)
declare `V` @llvm.experimental.vector.compress.`s`(`V`, `M`, `V`)
declare `V` @llvm.masked.load.`s`.p0(ptr, i32, `M`, `V`)
declare void @llvm.masked.store.`s`.p0(`V`, ptr, i32, `M`)
declare i`W` @llvm.ctpop.i`W`(i`W`)

; the first lanes, as many as are left of a row
define internal `M` @first.`m`(i64 %rest) alwaysinline nounwind {
  %low = icmp sgt i64 %rest, 0
  %some = select i1 %low, i64 %rest, i64 0
  %high = icmp slt i64 %some, `W`
  %count = select i1 %high, i64 %some, i64 `W`
  %count32 = trunc i64 %count to i32
  %bit = shl i32 1, %count32
  %bits = add i32 %bit, -1
  %narrow = trunc i32 %bits to i`W`
  %mask = bitcast i`W` %narrow to `M`
  ret `M` %mask
}
"""
"""What functions for vectors of a width call."""

_STEP = """%y# = call `V` @llvm.x86.avx512.permvar.`p`.512(`V` %x#, `V` %partners)
  %l# = call `V` @llvm.umin.`s`(`V` %x#, `V` %y#)
  %g# = call `V` @llvm.umax.`s`(`V` %x#, `V` %y#)
  %z# = select `M` %greater, `V` %g#, `V` %l#"""

_TEXT = """
@partners.`m` = internal constant [`STEPS` x `V`] [`PARTNERS`]
@greater.`m` = internal constant [`STEPS` x i`W`] [`GREATER`]
declare `V` @llvm.x86.avx512.permvar.`p`.512(`V`, `V`)

; bitonic sort of at most `LIMIT`; vectors behind the last one are filled up
define internal void @network.`m`(ptr %a, i64 %n) noinline nounwind {
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
  %from = getelementptr inbounds `T`, ptr %a, i64 %at
  %x = call `V` @llvm.masked.load.`s`.p0(ptr %from, i32 `A`, `M` %mask, `V` splat (`T` -1))
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
  %o.to = getelementptr inbounds `T`, ptr %a, i64 %o.at
  call void @llvm.masked.store.`s`.p0(`V` %o.x, ptr %o.to, i32 `A`, `M` %o.mask)
  %o2 = add i64 %o, 1
  %o.next = shl i64 %o2, `w`
  %o.more = icmp slt i64 %o.next, %n
  br i1 %o.more, label %store, label %done
done:
  ret void
}

; sorts; or when it is to be once, only brings some of the least to the front, and says how many these are
define i64 @`SORT`(ptr %a0, i64 %n0, ptr noalias %scratch, i1 %skewed0, i1 %once) nounwind {
entry:
  %sample = alloca [4 x `V`], align 64
  br label %part
part:
  %a = phi ptr [%a0, %entry], [%longer.a, %recurse]
  %n = phi i64 [%n0, %entry], [%longer.n, %recurse]
  %skewed = phi i1 [%skewed0, %entry], [%skewed2, %recurse]
  %short = icmp sle i64 %n, `LIMIT`
  br i1 %short, label %small, label %large
small:
  call void @network.`m`(ptr %a, i64 %n)
  ret i64 0
large:
  br i1 %skewed, label %range.start, label %take.start

; the pivot halves the range of values
range.start:
  %final = sub i64 %n, `W`
  br label %range
range:
  %r.i = phi i64 [0, %range.start], [%r.i2, %range]
  %low = phi `V` [splat (`T` -1), %range.start], [%low2, %range]
  %high = phi `V` [zeroinitializer, %range.start], [%high2, %range]
  %r.inside = icmp slt i64 %r.i, %final
  %r.at = select i1 %r.inside, i64 %r.i, i64 %final
  %r.from = getelementptr inbounds `T`, ptr %a, i64 %r.at
  %r.x = load `V`, ptr %r.from, align `A`
  %low2 = call `V` @llvm.umin.`s`(`V` %low, `V` %r.x)
  %high2 = call `V` @llvm.umax.`s`(`V` %high, `V` %r.x)
  %r.i2 = add i64 %r.i, `W`
  %r.more = icmp slt i64 %r.i2, %n
  br i1 %r.more, label %range, label %range.done
range.done:
  %least = call `T` @llvm.vector.reduce.umin.`s`(`V` %low2)
  %greatest = call `T` @llvm.vector.reduce.umax.`s`(`V` %high2)
  %width = sub `T` %greatest, %least
  %half = lshr `T` %width, 1
  %below.middle = add `T` %least, %half
  %middle = add `T` %below.middle, 1
  %single = icmp eq `T` %width, 0
  br i1 %single, label %done, label %partition

; the pivot is the median of a few
take.start:
  %long = icmp sgt i64 %n, 2047
  %factor = select i1 %long, i64 2, i64 0
  %count = shl i64 `W`, %factor
  %step = udiv i64 %n, %count
  %taken = lshr i64 %count, 1
  br label %take
take:
  %t.i = phi i64 [0, %take.start], [%t.i2, %take]
  %t.at = phi i64 [%taken, %take.start], [%t.at2, %take]
  %t.from = getelementptr inbounds `T`, ptr %a, i64 %t.at
  %t.x = load `T`, ptr %t.from, align `A`
  %t.to = getelementptr inbounds `T`, ptr %sample, i64 %t.i
  store `T` %t.x, ptr %t.to, align `A`
  %t.i2 = add i64 %t.i, 1
  %t.at2 = add i64 %t.at, %step
  %t.more = icmp slt i64 %t.i2, %count
  br i1 %t.more, label %take, label %take.done
take.done:
  call void @network.`m`(ptr %sample, i64 %count)
  %from.median = getelementptr inbounds `T`, ptr %sample, i64 %taken
  %median = load `T`, ptr %from.median, align `A`
  br label %partition

; what is below the pivot goes to the front, the rest to scratch memory
partition:
  %pivot = phi `T` [%middle, %range.done], [%median, %take.done]
  %one = insertelement `V` poison, `T` %pivot, i64 0
  %pivots = shufflevector `V` %one, `V` poison, <`W` x i32> zeroinitializer
  %whole = and i64 %n, -`W`
  br label %vector
vector:
  %i = phi i64 [0, %partition], [%i2, %vector]
  %lows = phi i64 [0, %partition], [%lows2, %vector]
  %from = getelementptr inbounds `T`, ptr %a, i64 %i
  %x = load `V`, ptr %from, align `A`
  %below = icmp ult `V` %x, %pivots
  %above = xor `M` %below, splat (i1 true)
  %xl = call `V` @llvm.experimental.vector.compress.`s`(`V` %x, `M` %below, `V` poison)
  %xh = call `V` @llvm.experimental.vector.compress.`s`(`V` %x, `M` %above, `V` poison)
  %to = getelementptr inbounds `T`, ptr %a, i64 %lows
  store `V` %xl, ptr %to, align `A`
  %highs = sub i64 %i, %lows
  %to.high = getelementptr inbounds `T`, ptr %scratch, i64 %highs
  store `V` %xh, ptr %to.high, align `A`
  %bits = bitcast `M` %below to i`W`
  %found = call i`W` @llvm.ctpop.i`W`(i`W` %bits)
  %found64 = zext i`W` %found to i64
  %lows2 = add i64 %lows, %found64
  %i2 = add i64 %i, `W`
  %more = icmp slt i64 %i2, %whole
  br i1 %more, label %vector, label %tail
tail:
  %l.rest = sub i64 %n, %i2
  %l.valid = call `M` @first.`m`(i64 %l.rest)
  %l.from = getelementptr inbounds `T`, ptr %a, i64 %i2
  %l.x = call `V` @llvm.masked.load.`s`.p0(ptr %l.from, i32 `A`, `M` %l.valid, `V` zeroinitializer)
  %l.less = icmp ult `V` %l.x, %pivots
  %l.below = and `M` %l.less, %l.valid
  %l.above = xor `M` %l.below, %l.valid
  %l.xl = call `V` @llvm.experimental.vector.compress.`s`(`V` %l.x, `M` %l.below, `V` poison)
  %l.xh = call `V` @llvm.experimental.vector.compress.`s`(`V` %l.x, `M` %l.above, `V` poison)
  %l.highs = sub i64 %i2, %lows2
  %l.to.high = getelementptr inbounds `T`, ptr %scratch, i64 %l.highs
  store `V` %l.xh, ptr %l.to.high, align `A`
  %l.bits = bitcast `M` %l.below to i`W`
  %l.found = call i`W` @llvm.ctpop.i`W`(i`W` %l.bits)
  %l.found64 = zext i`W` %l.found to i64
  %l.mask = call `M` @first.`m`(i64 %l.found64)
  %l.to = getelementptr inbounds `T`, ptr %a, i64 %lows2
  call void @llvm.masked.store.`s`.p0(`V` %l.xl, ptr %l.to, i32 `A`, `M` %l.mask)
  %lesser = add i64 %lows2, %l.found64
  %greater = sub i64 %n, %lesser
  %bytes = mul i64 %greater, `A`
  %behind = getelementptr inbounds `T`, ptr %a, i64 %lesser
  call void @llvm.memcpy.p0.p0.i64(ptr align `A` %behind, ptr align `A` %scratch, i64 %bytes, i1 false)
  br i1 %once, label %done, label %recurse

recurse:
  %fewer = icmp slt i64 %lesser, %greater
  %shorter.a = select i1 %fewer, ptr %a, ptr %behind
  %shorter.n = select i1 %fewer, i64 %lesser, i64 %greater
  %longer.a = select i1 %fewer, ptr %behind, ptr %a
  %longer.n = select i1 %fewer, i64 %greater, i64 %lesser
  %few = lshr i64 %n, 4
  %skewed2 = icmp slt i64 %shorter.n, %few
  %sorted = call i64 @`SORT`(ptr %shorter.a, i64 %shorter.n, ptr %scratch, i1 %skewed2, i1 false)
  br label %part
done:
  %result = phi i64 [0, %range.done], [%lesser, %tail]
  ret i64 %result
}
"""
