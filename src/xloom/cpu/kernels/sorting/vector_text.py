"""Text of LLVM functions for vectors of unsigned integers: names of types in it, and what most of them call."""

from __future__ import annotations

import re
from collections.abc import Mapping

BYTES = 64
"""Of a vector."""


def lanes(bits: int) -> int:
    """How many integers a vector holds; scratch memory is longer by so many than what is sorted."""
    return 8 * BYTES // bits


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

define internal i64 @count.`m`(`M` %mask) alwaysinline nounwind {
  %bits = bitcast `M` %mask to i`W`
  %count = call i`W` @llvm.ctpop.i`W`(i`W` %bits)
  %count64 = zext i`W` %count to i64
  ret i64 %count64
}
"""
"""What functions for vectors of a width call."""
