"""Text of LLVM functions for vectors of unsigned integers: names of types in it, and what most of them call."""

from __future__ import annotations

import re
from collections.abc import Mapping

BYTES = 64
"""Of a vector."""


def lanes(bits: int) -> int:
    """How many integers a vector holds; scratch memory is longer by so many than what is sorted."""
    return 8 * BYTES // bits


def vector_names(bits: int, apart: bool = False) -> dict[str, str]:
    """What `expanded` puts for the types of integers, vectors and masks, and for the parts of functions' names.

    Halves of integers lie `apart`, or integers as they are: E is what then lies at their pointer.
    """
    w = lanes(bits)
    return {
        "T": f"i{bits}",
        "E": f"i{bits // 2 if apart else bits}",
        "H": f"<{w} x i{bits // 2}>",
        "h": f"v{w}i{bits // 2}",
        "HALF": str(bits // 2),
        "B": str(bits // 16),
        "V": f"<{w} x i{bits}>",
        "M": f"<{w} x i1>",
        "W": str(w),
        "A": str(bits // 8),
        "s": f"v{w}i{bits}",
        "m": str(bits),
        "NARROW": f"trunc i64 %bits to i{w}" if w < 64 else "and i64 %bits, -1",
        "WIDE": f"zext i{w} %count to i64" if w < 64 else "and i64 %count, -1",
    }


def expanded(text: str, names: Mapping[str, str]) -> str:
    """`text` with what stands between backquotes replaced."""
    return re.sub("`(\\w+)`", lambda name: names[name[1]], text)


HEADER = 'target triple = "unknown-unknown-unknown"\ntarget datalayout = ""\n'
DECLARED = """
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
  %partial = icmp slt i64 %some, `W`
  %count = select i1 %partial, i64 %some, i64 0
  %bit = shl i64 1, %count
  %below = add i64 %bit, -1
  %bits = select i1 %partial, i64 %below, i64 -1
  %narrow = `NARROW`
  %mask = bitcast i`W` %narrow to `M`
  ret `M` %mask
}

define internal i64 @count.`m`(`M` %mask) alwaysinline nounwind {
  %bits = bitcast `M` %mask to i`W`
  %count = call i`W` @llvm.ctpop.i`W`(i`W` %bits)
  %count64 = `WIDE`
  ret i64 %count64
}
"""
"""What functions for vectors of a width call."""
TOGETHER = """
define internal `V` @take(ptr %from, i64 %distance) alwaysinline nounwind {
  %x = load `V`, ptr %from, align `A`
  ret `V` %x
}
define internal void @put(`V` %x, ptr %to, i64 %distance) alwaysinline nounwind {
  store `V` %x, ptr %to, align `A`
  ret void
}
define internal `V` @take.some(ptr %from, i64 %distance, `M` %mask) alwaysinline nounwind {
  %x = call `V` @llvm.masked.load.`s`.p0(ptr %from, i32 `A`, `M` %mask, `V` splat (`T` -1))
  ret `V` %x
}
define internal void @put.some(`V` %x, ptr %to, i64 %distance, `M` %mask) alwaysinline nounwind {
  call void @llvm.masked.store.`s`.p0(`V` %x, ptr %to, i32 `A`, `M` %mask)
  ret void
}
define internal `T` @take.one(ptr %from, i64 %distance) alwaysinline nounwind {
  %x = load `T`, ptr %from, align `A`
  ret `T` %x
}
define internal void @put.one(`T` %x, ptr %to, i64 %distance) alwaysinline nounwind {
  store `T` %x, ptr %to, align `A`
  ret void
}
"""
"""How integers are read and written that lie as they are."""
APART = """
declare `H` @llvm.masked.load.`h`.p0(ptr, i32, `M`, `H`)
declare void @llvm.masked.store.`h`.p0(`H`, ptr, i32, `M`)
define internal `V` @joined(`H` %high, `H` %low) alwaysinline nounwind {
  %wide = zext `H` %high to `V`
  %above = shl `V` %wide, splat (`T` `HALF`)
  %below = zext `H` %low to `V`
  %x = or `V` %above, %below
  ret `V` %x
}
define internal `H` @high(`V` %x) alwaysinline nounwind {
  %above = lshr `V` %x, splat (`T` `HALF`)
  %high = trunc `V` %above to `H`
  ret `H` %high
}
define internal `V` @take(ptr %from, i64 %distance) alwaysinline nounwind {
  %from.low = getelementptr i8, ptr %from, i64 %distance
  %high = load `H`, ptr %from, align `B`
  %low = load `H`, ptr %from.low, align `B`
  %x = call `V` @joined(`H` %high, `H` %low)
  ret `V` %x
}
define internal void @put(`V` %x, ptr %to, i64 %distance) alwaysinline nounwind {
  %to.low = getelementptr i8, ptr %to, i64 %distance
  %high = call `H` @high(`V` %x)
  %low = trunc `V` %x to `H`
  store `H` %high, ptr %to, align `B`
  store `H` %low, ptr %to.low, align `B`
  ret void
}
define internal `V` @take.some(ptr %from, i64 %distance, `M` %mask) alwaysinline nounwind {
  %from.low = getelementptr i8, ptr %from, i64 %distance
  %high = call `H` @llvm.masked.load.`h`.p0(ptr %from, i32 `B`, `M` %mask, `H` splat (i`HALF` -1))
  %low = call `H` @llvm.masked.load.`h`.p0(ptr %from.low, i32 `B`, `M` %mask, `H` splat (i`HALF` -1))
  %x = call `V` @joined(`H` %high, `H` %low)
  ret `V` %x
}
define internal void @put.some(`V` %x, ptr %to, i64 %distance, `M` %mask) alwaysinline nounwind {
  %to.low = getelementptr i8, ptr %to, i64 %distance
  %high = call `H` @high(`V` %x)
  %low = trunc `V` %x to `H`
  call void @llvm.masked.store.`h`.p0(`H` %high, ptr %to, i32 `B`, `M` %mask)
  call void @llvm.masked.store.`h`.p0(`H` %low, ptr %to.low, i32 `B`, `M` %mask)
  ret void
}
define internal `T` @take.one(ptr %from, i64 %distance) alwaysinline nounwind {
  %from.low = getelementptr i8, ptr %from, i64 %distance
  %high = load i`HALF`, ptr %from, align `B`
  %low = load i`HALF`, ptr %from.low, align `B`
  %wide = zext i`HALF` %high to `T`
  %above = shl `T` %wide, `HALF`
  %below = zext i`HALF` %low to `T`
  %x = or `T` %above, %below
  ret `T` %x
}
define internal void @put.one(`T` %x, ptr %to, i64 %distance) alwaysinline nounwind {
  %to.low = getelementptr i8, ptr %to, i64 %distance
  %above = lshr `T` %x, `HALF`
  %high = trunc `T` %above to i`HALF`
  %low = trunc `T` %x to i`HALF`
  store i`HALF` %high, ptr %to, align `B`
  store i`HALF` %low, ptr %to.low, align `B`
  ret void
}
"""
"""The same where their high halves lie there, and the low ones so many bytes on."""
