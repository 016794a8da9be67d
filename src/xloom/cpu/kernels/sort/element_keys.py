"""Elements that are their own keys: to unsigned integers that order as they do and back, as text of LLVM functions.

Comparators may hold both zeros, or all NaNs, to be equal. Such elements get one key, become all the same on the way
back, and are then put in their places from the unsorted row, in the order in which they stand there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from xloom.cpu.kernels.sort.keys import Key, canonical_nan
from xloom.cpu.kernels.sort.vector_text import DECLARED, HEADER, expanded, lanes, vector_names
from xloom.hlo.dtype import DType, Kind


@dataclass(frozen=True)
class ElementKey:
    """How elements order that have as many bits as integers have."""

    dtype: DType
    descending: bool
    equal_zeros: bool = False
    nan: int | None = None
    """The bits of the NaN that all NaNs are taken for, if they are."""

    @classmethod
    def of(cls, key: Key) -> ElementKey | None:
        """The order of a key of the comparator, where that is of the element itself; else None."""
        dtype, expression = key.dtype, key.expression
        least = 16 if dtype.is_float else 8
        if not least <= dtype.bits <= 64 or dtype.kind is Kind.PRED or dtype.is_complex:
            return None
        if expression.opcode == "parameter":
            return cls(dtype, key.descending, dtype.is_float and not key.total_order)
        nan = canonical_nan(expression) if key.total_order else None
        return None if nan is None else cls(dtype, key.descending, equal_zeros=True, nan=nan)

    @property
    def name(self) -> str:
        """A name that tells the order from all others."""
        parts = [self.dtype.name, "descending" if self.descending else "ascending"]
        if self.equal_zeros:
            parts.append("zeros" if self.nan is None else f"zeros.{self.nan:x}")
        return ".".join(parts)

    @property
    def convert_symbol(self) -> str:
        """`i1 convert(ptr elements, ptr keys, i64 count)`: true when elements that differ got one key."""
        return f"xloom.sort.keys.{self.name}"

    @property
    def back_symbol(self) -> str:
        """`void back(ptr keys, ptr elements, i64 count)`: the one element of each key."""
        return f"xloom.sort.elements.{self.name}"

    @property
    def restore_symbol(self) -> str:
        """`void restore(ptr unsorted, i64 count, ptr elements, i64 begin, i64 end)`: makes elements what they were.

        Of the row, [begin, end) is a part that has all elements of one key or none.
        """
        return f"xloom.sort.restore.{self.name}"

    @property
    def number_symbol(self) -> str:
        """`void number(ptr elements, ptr records, i64 begin, i64 end)`: 64 bits, the key above the number in the row.

        Of elements of 32 bits.
        """
        return f"xloom.sort.number.{self.name}"

    @property
    def pair_symbol(self) -> str:
        """`void pair(ptr elements, ptr keys, ptr numbers, i64 begin, i64 end)`: keys, and where their elements are.

        Of elements of 32 bits; keys may lie where they do.
        """
        return f"xloom.sort.pair.{self.name}"

    @property
    def scan_symbol(self) -> str:
        """`i64 scan(ptr elements, i64 begin, i64 count, integer limit)`: where a key below the limit is near.

        The first element, from `begin` on in steps of a vector, of one that has such a key; or `count`.
        """
        return f"xloom.sort.scan.{self.name}"

    def integer(self, bits: int) -> int:
        """The key of the element that has these bits."""
        width, sign = self.dtype.bits, 1 << (self.dtype.bits - 1)
        if self.dtype.is_float:
            bits ^= (1 << width) - 1 if bits & sign else sign
        elif self.dtype.kind is Kind.SIGNED:
            bits ^= sign
        return bits ^ ((1 << width) - 1 if self.descending else 0)


@lru_cache(maxsize=16)
def element_functions(key: ElementKey) -> str:
    """A module that has `convert` and `back`, and `restore` where that can be needed."""
    return _module(key, _CONVERT + (_RESTORE if key.equal_zeros else ""))


@lru_cache(maxsize=16)
def scan_function(key: ElementKey) -> str:
    """A module that has `scan`."""
    return _module(key, _SCAN)


@lru_cache(maxsize=16)
def number_function(key: ElementKey) -> str:
    """A module that has `number`."""
    return _module(key, _NUMBER)


@lru_cache(maxsize=16)
def pair_function(key: ElementKey) -> str:
    """A module that has `pair`."""
    return _module(key, _PAIR)


def _module(key: ElementKey, functions: str) -> str:
    width = key.dtype.bits
    fraction = key.dtype.mantissa_bits if key.dtype.is_float else 0
    classes = [0] if key.nan is None else [0, key.nan]
    names = {
        **vector_names(width),
        "CONVERT": key.convert_symbol,
        "BACK": key.back_symbol,
        "RESTORE": key.restore_symbol,
        "SCAN": key.scan_symbol,
        "NUMBER": key.number_symbol,
        "PAIR": key.pair_symbol,
        "PLACES": ", ".join(f"i64 {lane}" for lane in range(lanes(width))),
        "LANES": ", ".join(f"i{width} {lane}" for lane in range(lanes(width))),
        "SIGN": str(1 << (width - 1)),
        "LAST_BIT": str(width - 1),
        "PLUS": str(key.integer(0)),
        "INFINITY": str((1 << (width - 1)) - (1 << fraction)),
        "NAN": str(key.nan),
        "FIRST": str(key.integer(classes[0])),
        "LAST": str(key.integer(classes[-1])),
    }
    same = _SAME_ZEROS if key.equal_zeros else ""
    same += "" if key.nan is None else _SAME_NANS
    result = "%x" if not same else "%y" if key.nan is None else "%z"
    order = _FLOAT if key.dtype.is_float else _INTEGER
    text = DECLARED + _SAME.replace("#", same + f"  ret `V` {result}") + order + functions
    return HEADER + expanded(text, names)


_SAME = """
; one of all elements that are equal
define internal `V` @same(`V` %x) alwaysinline nounwind {
#
}
"""
_SAME_ZEROS = """\
  %is.zero = icmp eq `V` %x, splat (`T` `SIGN`)
  %y = select `M` %is.zero, `V` zeroinitializer, `V` %x
"""
_SAME_NANS = """\
  %twice = shl `V` %y, splat (`T` 1)
  %size = lshr `V` %twice, splat (`T` 1)
  %is.nan = icmp ugt `V` %size, splat (`T` `INFINITY`)
  %z = select `M` %is.nan, `V` splat (`T` `NAN`), `V` %y
"""

_INTEGER = """
define internal `V` @order(`V` %x) alwaysinline nounwind {
  %key = xor `V` %x, splat (`T` `PLUS`)
  ret `V` %key
}
define internal `V` @back(`V` %key) alwaysinline nounwind {
  %x = xor `V` %key, splat (`T` `PLUS`)
  ret `V` %x
}
"""
_FLOAT = """
; those of negative numbers have all bits but the sign changed, and then all those of one sign
define internal `V` @turned(`V` %x) alwaysinline nounwind {
  %sign = ashr `V` %x, splat (`T` `LAST_BIT`)
  %flips = lshr `V` %sign, splat (`T` 1)
  %y = xor `V` %x, %flips
  ret `V` %y
}
define internal `V` @order(`V` %x) alwaysinline nounwind {
  %y = call `V` @turned(`V` %x)
  %key = xor `V` %y, splat (`T` `PLUS`)
  ret `V` %key
}
define internal `V` @back(`V` %key) alwaysinline nounwind {
  %y = xor `V` %key, splat (`T` `PLUS`)
  %x = call `V` @turned(`V` %y)
  ret `V` %x
}
"""

_CONVERT = """
define i1 @"`CONVERT`"(ptr %elements, ptr %keys, i64 %n) nounwind {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%i2, %whole]
  %changed = phi `V` [zeroinitializer, %entry], [%changed2, %whole]
  %from = getelementptr inbounds `T`, ptr %elements, i64 %i
  %to = getelementptr inbounds `T`, ptr %keys, i64 %i
  %i2 = add i64 %i, `W`
  %is.whole = icmp sle i64 %i2, %n
  br i1 %is.whole, label %whole, label %rest
whole:
  %x = load `V`, ptr %from, align `A`
  %y = call `V` @same(`V` %x)
  %key = call `V` @order(`V` %y)
  store `V` %key, ptr %to, align `A`
  %difference = xor `V` %x, %y
  %changed2 = or `V` %changed, %difference
  br label %head
rest:
  %left = sub i64 %n, %i
  %mask = call `M` @first.`m`(i64 %left)
  %r.x = call `V` @llvm.masked.load.`s`.p0(ptr %from, i32 `A`, `M` %mask, `V` zeroinitializer)
  %r.y = call `V` @same(`V` %r.x)
  %r.key = call `V` @order(`V` %r.y)
  call void @llvm.masked.store.`s`.p0(`V` %r.key, ptr %to, i32 `A`, `M` %mask)
  %r.difference = xor `V` %r.x, %r.y
  %r.changed = or `V` %changed, %r.difference
  %lanes = icmp ne `V` %r.changed, zeroinitializer
  %bits = bitcast `M` %lanes to i`W`
  %any = icmp ne i`W` %bits, 0
  ret i1 %any
}
define void @"`BACK`"(ptr %keys, ptr %elements, i64 %n) nounwind {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%i2, %whole]
  %from = getelementptr inbounds `T`, ptr %keys, i64 %i
  %to = getelementptr inbounds `T`, ptr %elements, i64 %i
  %i2 = add i64 %i, `W`
  %is.whole = icmp sle i64 %i2, %n
  br i1 %is.whole, label %whole, label %rest
whole:
  %key = load `V`, ptr %from, align `A`
  %x = call `V` @back(`V` %key)
  store `V` %x, ptr %to, align `A`
  br label %head
rest:
  %left = sub i64 %n, %i
  %mask = call `M` @first.`m`(i64 %left)
  %r.key = call `V` @llvm.masked.load.`s`.p0(ptr %from, i32 `A`, `M` %mask, `V` zeroinitializer)
  %r.x = call `V` @back(`V` %r.key)
  call void @llvm.masked.store.`s`.p0(`V` %r.x, ptr %to, i32 `A`, `M` %mask)
  ret void
}
"""
_RESTORE = """
define void @"`RESTORE`"(ptr %unsorted, i64 %n, ptr %elements, i64 %begin, i64 %end) nounwind {
entry:
  br label %class
class:
  %value = phi `T` [`FIRST`, %entry], [`LAST`, %class.done]
  %one = insertelement `V` poison, `T` %value, i64 0
  %values = shufflevector `V` %one, `V` poison, <`W` x i32> zeroinitializer
  br label %pass
; the first pass counts the elements before the class, the second puts those of the class behind
pass:
  %base = phi i64 [0, %class], [%at2, %pass.done]
  %counts = phi i1 [true, %class], [false, %pass.done]
  br label %vector
vector:
  %i = phi i64 [0, %pass], [%i2, %vector.done]
  %at = phi i64 [%base, %pass], [%at2, %vector.done]
  %from = getelementptr inbounds `T`, ptr %unsorted, i64 %i
  %rest = sub i64 %n, %i
  %mask = call `M` @first.`m`(i64 %rest)
  %x = call `V` @llvm.masked.load.`s`.p0(ptr %from, i32 `A`, `M` %mask, `V` zeroinitializer)
  %y = call `V` @same(`V` %x)
  %key = call `V` @order(`V` %y)
  %less = icmp ult `V` %key, %values
  %equal = icmp eq `V` %key, %values
  %wanted = select i1 %counts, `M` %less, `M` %equal
  %valid = and `M` %wanted, %mask
  %bits = bitcast `M` %valid to i`W`
  %count = call i`W` @llvm.ctpop.i`W`(i`W` %bits)
  %count64 = zext i`W` %count to i64
  br i1 %counts, label %vector.done, label %put
put:
  %found = call `V` @llvm.experimental.vector.compress.`s`(`V` %x, `M` %valid, `V` poison)
  %to = getelementptr inbounds `T`, ptr %elements, i64 %at
  %lows = call `M` @first.`m`(i64 %count64)
  call void @llvm.masked.store.`s`.p0(`V` %found, ptr %to, i32 `A`, `M` %lows)
  br label %vector.done
vector.done:
  %at2 = add i64 %at, %count64
  %i2 = add i64 %i, `W`
  %more = icmp slt i64 %i2, %n
  br i1 %more, label %vector, label %pass.done
pass.done:
  %late = icmp sge i64 %at2, %begin
  %early = icmp slt i64 %at2, %end
  %inside = and i1 %late, %early
  %puts = and i1 %counts, %inside
  br i1 %puts, label %pass, label %class.done
class.done:
  %again = icmp ne `T` %value, `LAST`
  br i1 %again, label %class, label %done
done:
  ret void
}
"""

_SCAN = """
define i64 @"`SCAN`"(ptr %elements, i64 %begin, i64 %n, `T` %limit) nounwind {
entry:
  %one = insertelement `V` poison, `T` %limit, i64 0
  %limits = shufflevector `V` %one, `V` poison, <`W` x i32> zeroinitializer
  br label %head
head:
  %i = phi i64 [%begin, %entry], [%i2, %vector]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %vector, label %none
vector:
  %from = getelementptr inbounds `T`, ptr %elements, i64 %i
  %rest = sub i64 %n, %i
  %mask = call `M` @first.`m`(i64 %rest)
  %x = call `V` @llvm.masked.load.`s`.p0(ptr %from, i32 `A`, `M` %mask, `V` zeroinitializer)
  %y = call `V` @same(`V` %x)
  %key = call `V` @order(`V` %y)
  %below = icmp ult `V` %key, %limits
  %valid = and `M` %below, %mask
  %bits = bitcast `M` %valid to i`W`
  %found = icmp ne i`W` %bits, 0
  %i2 = add i64 %i, `W`
  br i1 %found, label %here, label %head
here:
  ret i64 %i
none:
  ret i64 %n
}
"""

_KEYS = """\
  %rest = sub i64 %end, %i
  %mask = call `M` @first.`m`(i64 %rest)
  %x = call `V` @llvm.masked.load.`s`.p0(ptr %from, i32 `A`, `M` %mask, `V` zeroinitializer)
  %y = call `V` @same(`V` %x)
  %key = call `V` @order(`V` %y)
"""
"""Those of a vector of elements, as far as there are some."""

_NUMBER = (
    """
declare void @llvm.masked.store.v`W`i64.p0(<`W` x i64>, ptr, i32, `M`)
define void @"`NUMBER`"(ptr %elements, ptr %records, i64 %begin, i64 %end) nounwind {
entry:
  br label %head
head:
  %i = phi i64 [%begin, %entry], [%i2, %vector]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %vector, label %done
vector:
  %from = getelementptr inbounds `T`, ptr %elements, i64 %i
  %to = getelementptr inbounds i64, ptr %records, i64 %i
"""
    + _KEYS
    + """  %wide = zext `V` %key to <`W` x i64>
  %high = shl <`W` x i64> %wide, splat (i64 32)
  %one = insertelement <`W` x i64> poison, i64 %i, i64 0
  %first = shufflevector <`W` x i64> %one, <`W` x i64> poison, <`W` x i32> zeroinitializer
  %places = add <`W` x i64> %first, <`PLACES`>
  %record = or <`W` x i64> %high, %places
  call void @llvm.masked.store.v`W`i64.p0(<`W` x i64> %record, ptr %to, i32 8, `M` %mask)
  %i2 = add i64 %i, `W`
  br label %head
done:
  ret void
}
"""
)

_PAIR = (
    """
define void @"`PAIR`"(ptr %elements, ptr %keys, ptr %numbers, i64 %begin, i64 %end) nounwind {
entry:
  br label %head
head:
  %i = phi i64 [%begin, %entry], [%i2, %vector]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %vector, label %done
vector:
  %from = getelementptr inbounds `T`, ptr %elements, i64 %i
  %to = getelementptr inbounds `T`, ptr %keys, i64 %i
  %number.to = getelementptr inbounds `T`, ptr %numbers, i64 %i
"""
    + _KEYS
    + """  call void @llvm.masked.store.`s`.p0(`V` %key, ptr %to, i32 `A`, `M` %mask)
  %first = trunc i64 %i to `T`
  %one = insertelement `V` poison, `T` %first, i64 0
  %all = shufflevector `V` %one, `V` poison, <`W` x i32> zeroinitializer
  %places = add `V` %all, <`LANES`>
  call void @llvm.masked.store.`s`.p0(`V` %places, ptr %number.to, i32 `A`, `M` %mask)
  %i2 = add i64 %i, `W`
  br label %head
done:
  ret void
}
"""
)
