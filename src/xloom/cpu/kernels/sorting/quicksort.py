"""Quicksort of unsigned integers by vectors, as text of LLVM functions that depend on no shape.

A partition reads whole vectors: lanes below the pivot are packed to the front of the array, all others go to scratch
memory, and from there behind them. Parts of few vectors are sorted by a bitonic network. After a partition that splits
off next to nothing, the next pivot halves the range of values, so that no input takes quadratic time.
"""

from __future__ import annotations

from functools import lru_cache

from llvmlite import ir

from xloom.cpu.emit.types import I1, I64, POINTER
from xloom.cpu.kernels.sorting.bitonic import MOST, bitonic_sort
from xloom.cpu.kernels.sorting.vector_text import DECLARED, HEADER, expanded, lanes, vector_names

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
    names = {**vector_names(bits), "LIMIT": str(MOST * lanes(bits)), "SORT": sort_symbol(bits)}
    return HEADER + expanded(DECLARED, names) + bitonic_sort(bits) + expanded(_TEXT, names)


_TEXT = """
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
