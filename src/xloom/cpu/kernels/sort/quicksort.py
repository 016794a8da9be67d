"""Quicksort of unsigned integers by vectors, as text of LLVM functions that depend on no shape.

A partition is done in place: a few vectors of both ends are kept apart, so that there is room for lanes below the pivot
at the front and for all others at the end; what is read next is taken from the end with less room. Parts of few vectors
are sorted by a bitonic network, a function of another module. After a partition that splits off next to nothing, the
next pivot halves the range of values, so that no input takes quadratic time.
"""

from __future__ import annotations

from functools import lru_cache

from llvmlite import ir

from xloom.cpu.kernels.sort.bitonic import MOST, network_symbol
from xloom.cpu.kernels.sort.vector_text import APART, BYTES, DECLARED, HEADER, TOGETHER, expanded, lanes, vector_names
from xloom.llvm.target import Target
from xloom.llvm.types import I1, I64, POINTER

SORT = ir.FunctionType(I64, [POINTER, I64, I64, I1, I1])
_SAMPLE = 4
"""Vectors of which the median is taken, at most."""
_UNROLLED = 4
"""Vectors that are read at once; so many of both ends are kept apart, and so many at most are left in the middle."""


def partitions(bits: int, target: Target) -> bool:
    """True for integers of so many bits that vectors of the target part sooner than others: those of a byte are few."""
    return bits > 8 and target.packs_lanes(bits)


def sort_symbol(bits: int, apart: bool = False) -> str:
    """`i64 sort(ptr integers, i64 distance, i64 count, i1 false, i1 once)`.

    With halves `apart`, the low one of each integer lies `distance` bytes from its high one; else that means nothing.
    With `once` it only brings some that are less than all others to the front, and says how many: none of few.
    """
    return f"xloom.sort.u{bits}{'.apart' if apart else ''}"


@lru_cache(maxsize=4)
def quicksort(bits: int, apart: bool = False) -> str:
    """A module that has the function."""
    w, step = lanes(bits), lanes(bits // 2 if apart else bits)
    kept = _UNROLLED * step
    names = {
        **vector_names(bits, apart),
        "LIMIT": str(MOST * w),
        "MOST": str(MOST),
        "w": str(w.bit_length() - 1),
        "NETWORK": network_symbol(bits),
        "SORT": sort_symbol(bits, apart),
        "SAMPLE": str(BYTES * _SAMPLE // 2),
        "SAMPLED": str(_SAMPLE),
        "KEPT": str(kept),
        "ENDS": str(2 * kept),
        "BUFFER": str(3 * kept // w),
        "STEP": str(step),
    }
    steps = [(str(k), f".{k}" if k else "", f".{k + 1}") for k in range(_UNROLLED)]
    load, part, pivots = (_LOAD_APART, _PART_APART, _PIVOTS_APART) if apart else (_LOAD, _PART, _PIVOTS)
    parts = "\n".join(
        part.replace("#", k).replace("@@BEFORE", before).replace("@@AFTER", after) for k, before, after in steps
    )
    loads = "\n".join(load.replace("#", str(k)).replace("@@PLACE", str(k * step)) for k in range(_UNROLLED))
    text = _TEXT.replace("@@LOADS", loads).replace("@@PARTS", parts).replace("@@PIVOTS", pivots)
    text = text.replace("@@LAST", str(_UNROLLED))
    memory = expanded(DECLARED + (APART if apart else TOGETHER), names)
    memory += expanded(DECLARED, vector_names(bits // 2)) if apart else ""
    halves = {f"{name}2": value for name, value in vector_names(bits // 2).items()}
    return HEADER + memory + expanded(_FEW + text, {**names, **halves})


_LOAD = """\
  %from.# = getelementptr inbounds `E`, ptr %from, i64 @@PLACE
  %x.# = call `V` @take(ptr %from.#, i64 %distance)"""
_PART = """\
  %below.# = icmp ult `V` %x.#, %pivots
  %above.# = xor `M` %below.#, splat (i1 true)
  %xl.# = call `V` @llvm.experimental.vector.compress.`s`(`V` %x.#, `M` %below.#, `V` poison)
  %xh.# = call `V` @llvm.experimental.vector.compress.`s`(`V` %x.#, `M` %above.#, `V` poison)
  %count.# = call i64 @count.`m`(`M` %below.#)
  %count.high.# = sub i64 `W`, %count.#
  %mask.# = call `M` @first.`m`(i64 %count.high.#)
  %to.# = getelementptr inbounds `E`, ptr %a, i64 %lows@@BEFORE
  call void @put(`V` %xl.#, ptr %to.#, i64 %distance)
  %lows@@AFTER = add i64 %lows@@BEFORE, %count.#
  %highs@@AFTER = sub i64 %highs@@BEFORE, %count.high.#
  %to.high.# = getelementptr inbounds `E`, ptr %a, i64 %highs@@AFTER
  call void @put.some(`V` %xh.#, ptr %to.high.#, i64 %distance, `M` %mask.#)"""
_PIVOTS = """\
  %one = insertelement `V` poison, `T` %pivot, i64 0
  %pivots = shufflevector `V` %one, `V` poison, <`W` x i32> zeroinitializer"""
_LOAD_APART = """\
  %from.# = getelementptr inbounds `E`, ptr %from, i64 @@PLACE
  %from.low.# = getelementptr i8, ptr %from.#, i64 %distance
  %x.# = load `V2`, ptr %from.#, align `A2`
  %y.# = load `V2`, ptr %from.low.#, align `A2`"""
_PART_APART = """\
  %less.# = icmp ult `V2` %x.#, %pivots.high
  %same.# = icmp eq `V2` %x.#, %pivots.high
  %less.low.# = icmp ult `V2` %y.#, %pivots.low
  %same.below.# = and `M2` %same.#, %less.low.#
  %below.# = or `M2` %less.#, %same.below.#
  %above.# = xor `M2` %below.#, splat (i1 true)
  %xl.# = call `V2` @llvm.experimental.vector.compress.`s2`(`V2` %x.#, `M2` %below.#, `V2` poison)
  %yl.# = call `V2` @llvm.experimental.vector.compress.`s2`(`V2` %y.#, `M2` %below.#, `V2` poison)
  %xh.# = call `V2` @llvm.experimental.vector.compress.`s2`(`V2` %x.#, `M2` %above.#, `V2` poison)
  %yh.# = call `V2` @llvm.experimental.vector.compress.`s2`(`V2` %y.#, `M2` %above.#, `V2` poison)
  %count.# = call i64 @count.`m2`(`M2` %below.#)
  %count.high.# = sub i64 `STEP`, %count.#
  %mask.# = call `M2` @first.`m2`(i64 %count.high.#)
  %to.# = getelementptr inbounds `E`, ptr %a, i64 %lows@@BEFORE
  %to.low.# = getelementptr i8, ptr %to.#, i64 %distance
  store `V2` %xl.#, ptr %to.#, align `A2`
  store `V2` %yl.#, ptr %to.low.#, align `A2`
  %lows@@AFTER = add i64 %lows@@BEFORE, %count.#
  %highs@@AFTER = sub i64 %highs@@BEFORE, %count.high.#
  %to.high.# = getelementptr inbounds `E`, ptr %a, i64 %highs@@AFTER
  %to.high.low.# = getelementptr i8, ptr %to.high.#, i64 %distance
  call void @llvm.masked.store.`s2`.p0(`V2` %xh.#, ptr %to.high.#, i32 `A2`, `M2` %mask.#)
  call void @llvm.masked.store.`s2`.p0(`V2` %yh.#, ptr %to.high.low.#, i32 `A2`, `M2` %mask.#)"""
_PIVOTS_APART = (
    _PIVOTS
    + """
  %pivot.wide = lshr `T` %pivot, `HALF`
  %pivot.high = trunc `T` %pivot.wide to `T2`
  %pivot.low = trunc `T` %pivot to `T2`
  %one.high = insertelement `V2` poison, `T2` %pivot.high, i64 0
  %pivots.high = shufflevector `V2` %one.high, `V2` poison, <`W2` x i32> zeroinitializer
  %one.low = insertelement `V2` poison, `T2` %pivot.low, i64 0
  %pivots.low = shufflevector `V2` %one.low, `V2` poison, <`W2` x i32> zeroinitializer"""
)
_FEW = """
declare void @"`NETWORK`"(ptr, i64)
define internal void @few(ptr %a, i64 %distance, i64 %n) noinline nounwind {
entry:
  %buffer = alloca [`MOST` x `V`], align 64
  br label %load
load:
  %i = phi i64 [0, %entry], [%i2, %load]
  %rest = sub i64 %n, %i
  %mask = call `M` @first.`m`(i64 %rest)
  %from = getelementptr inbounds `E`, ptr %a, i64 %i
  %x = call `V` @take.some(ptr %from, i64 %distance, `M` %mask)
  %to = getelementptr inbounds `T`, ptr %buffer, i64 %i
  store `V` %x, ptr %to, align 64
  %i2 = add i64 %i, `W`
  %more = icmp slt i64 %i2, %n
  br i1 %more, label %load, label %sort
sort:
  call void @"`NETWORK`"(ptr %buffer, i64 %n)
  br label %store
store:
  %o = phi i64 [0, %sort], [%o2, %store]
  %o.rest = sub i64 %n, %o
  %o.mask = call `M` @first.`m`(i64 %o.rest)
  %o.from = getelementptr inbounds `T`, ptr %buffer, i64 %o
  %o.x = load `V`, ptr %o.from, align 64
  %o.to = getelementptr inbounds `E`, ptr %a, i64 %o
  call void @put.some(`V` %o.x, ptr %o.to, i64 %distance, `M` %o.mask)
  %o2 = add i64 %o, `W`
  %o.more = icmp slt i64 %o2, %n
  br i1 %o.more, label %store, label %done
done:
  ret void
}
"""
_TEXT = """
; sorts; or when it is to be once, only brings some of the least to the front, and says how many these are
define i64 @`SORT`(ptr %a0, i64 %distance, i64 %n0, i1 %skewed0, i1 %once) nounwind {
entry:
  %buffer = alloca [`BUFFER` x `V`], align 64
  %sample = alloca [`SAMPLED` x `V`], align 64
  br label %part
part:
  %a = phi ptr [%a0, %entry], [%longer.a, %recurse]
  %n = phi i64 [%n0, %entry], [%longer.n, %recurse]
  %skewed = phi i1 [%skewed0, %entry], [%skewed2, %recurse]
  %short = icmp sle i64 %n, `LIMIT`
  br i1 %short, label %small, label %large
small:
  br i1 %once, label %done, label %network
network:
  call void @few(ptr %a, i64 %distance, i64 %n)
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
  %r.from = getelementptr inbounds `E`, ptr %a, i64 %r.at
  %r.x = call `V` @take(ptr %r.from, i64 %distance)
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
  %t.from = getelementptr inbounds `E`, ptr %a, i64 %t.at
  %t.x = call `T` @take.one(ptr %t.from, i64 %distance)
  %t.to = getelementptr inbounds `E`, ptr %sample, i64 %t.i
  call void @put.one(`T` %t.x, ptr %t.to, i64 `SAMPLE`)
  %t.i2 = add i64 %t.i, 1
  %t.at2 = add i64 %t.at, %step
  %t.more = icmp slt i64 %t.i2, %count
  br i1 %t.more, label %take, label %take.done
take.done:
  call void @few(ptr %sample, i64 `SAMPLE`, i64 %count)
  %from.median = getelementptr inbounds `E`, ptr %sample, i64 %taken
  %median = call `T` @take.one(ptr %from.median, i64 `SAMPLE`)
  br label %partition

; the vectors of both ends are kept apart
partition:
  %pivot = phi `T` [%middle, %range.done], [%median, %take.done]
@@PIVOTS
  %behind.end = sub i64 %n, `ENDS`
  br label %keep
keep:
  %k = phi i64 [0, %partition], [%k2, %keep]
  %k.first = icmp slt i64 %k, `KEPT`
  %k.last = add i64 %behind.end, %k
  %k.at = select i1 %k.first, i64 %k, i64 %k.last
  %k.from = getelementptr inbounds `E`, ptr %a, i64 %k.at
  %k.x = call `V` @take(ptr %k.from, i64 %distance)
  %k.to = getelementptr inbounds `T`, ptr %buffer, i64 %k
  store `V` %k.x, ptr %k.to, align 64
  %k2 = add i64 %k, `W`
  %k.more = icmp slt i64 %k2, `ENDS`
  br i1 %k.more, label %keep, label %blocks.start

; what is below the pivot goes to the front, the rest to the end
blocks.start:
  %right0 = sub i64 %n, `KEPT`
  br label %blocks
blocks:
  %left = phi i64 [`KEPT`, %blocks.start], [%left2, %block]
  %right = phi i64 [%right0, %blocks.start], [%right2, %block]
  %lows = phi i64 [0, %blocks.start], [%lows.@@LAST, %block]
  %highs = phi i64 [%n, %blocks.start], [%highs.@@LAST, %block]
  %rest = sub i64 %right, %left
  %enough = icmp sge i64 %rest, `KEPT`
  br i1 %enough, label %block, label %middle.start
block:
  %room.left = sub i64 %left, %lows
  %room.right = sub i64 %highs, %right
  %is.left = icmp sle i64 %room.left, %room.right
  %left.next = add i64 %left, `KEPT`
  %right.next = sub i64 %right, `KEPT`
  %left2 = select i1 %is.left, i64 %left.next, i64 %left
  %right2 = select i1 %is.left, i64 %right, i64 %right.next
  %at = select i1 %is.left, i64 %left, i64 %right.next
  %from = getelementptr inbounds `E`, ptr %a, i64 %at
@@LOADS
@@PARTS
  br label %blocks

; what is left in the middle joins what was kept, and all of it takes the room that is left
middle.start:
  %kept = add i64 %rest, `ENDS`
  br label %middle.keep
middle.keep:
  %m = phi i64 [0, %middle.start], [%m2, %middle.keep]
  %m.at = add i64 %left, %m
  %m.from = getelementptr inbounds `E`, ptr %a, i64 %m.at
  %m.x = call `V` @take(ptr %m.from, i64 %distance)
  %m.place = add i64 %m, `ENDS`
  %m.to = getelementptr inbounds `T`, ptr %buffer, i64 %m.place
  store `V` %m.x, ptr %m.to, align 64
  %m2 = add i64 %m, `W`
  %m.more = icmp slt i64 %m2, %rest
  br i1 %m.more, label %middle.keep, label %last
last:
  %l = phi i64 [0, %middle.keep], [%l2, %last]
  %l.lows = phi i64 [%lows, %middle.keep], [%lesser, %last]
  %l.highs = phi i64 [%highs, %middle.keep], [%l.highs2, %last]
  %l.rest = sub i64 %kept, %l
  %l.valid = call `M` @first.`m`(i64 %l.rest)
  %l.from = getelementptr inbounds `T`, ptr %buffer, i64 %l
  %l.x = load `V`, ptr %l.from, align 64
  %l.less = icmp ult `V` %l.x, %pivots
  %l.below = and `M` %l.less, %l.valid
  %l.above = xor `M` %l.below, %l.valid
  %l.xl = call `V` @llvm.experimental.vector.compress.`s`(`V` %l.x, `M` %l.below, `V` poison)
  %l.xh = call `V` @llvm.experimental.vector.compress.`s`(`V` %l.x, `M` %l.above, `V` poison)
  %l.count = call i64 @count.`m`(`M` %l.below)
  %l.count.high = call i64 @count.`m`(`M` %l.above)
  %l.mask = call `M` @first.`m`(i64 %l.count)
  %l.mask.high = call `M` @first.`m`(i64 %l.count.high)
  %l.highs2 = sub i64 %l.highs, %l.count.high
  %l.to = getelementptr inbounds `E`, ptr %a, i64 %l.lows
  %l.to.high = getelementptr inbounds `E`, ptr %a, i64 %l.highs2
  call void @put.some(`V` %l.xl, ptr %l.to, i64 %distance, `M` %l.mask)
  call void @put.some(`V` %l.xh, ptr %l.to.high, i64 %distance, `M` %l.mask.high)
  %lesser = add i64 %l.lows, %l.count
  %l2 = add i64 %l, `W`
  %l.more = icmp slt i64 %l2, %kept
  br i1 %l.more, label %last, label %parted
parted:
  %greater = sub i64 %n, %lesser
  %behind = getelementptr inbounds `E`, ptr %a, i64 %lesser
  br i1 %once, label %done, label %recurse

recurse:
  %fewer = icmp slt i64 %lesser, %greater
  %shorter.a = select i1 %fewer, ptr %a, ptr %behind
  %shorter.n = select i1 %fewer, i64 %lesser, i64 %greater
  %longer.a = select i1 %fewer, ptr %behind, ptr %a
  %longer.n = select i1 %fewer, i64 %greater, i64 %lesser
  %few = lshr i64 %n, 4
  %skewed2 = icmp slt i64 %shorter.n, %few
  %sorted = call i64 @`SORT`(ptr %shorter.a, i64 %distance, i64 %shorter.n, i1 %skewed2, i1 false)
  br label %part
done:
  %result = phi i64 [0, %small], [0, %range.done], [%lesser, %parted]
  ret i64 %result
}
"""
