"""A function that puts elements whose key others share where the key was sorted to.

Comparators may hold both zeros, or all NaNs, to be equal. Such elements get one key, become all the same on the way
back, and are then put in their places from the unsorted row, in the order in which they stand there.
"""

from __future__ import annotations

from llvmlite import ir

from xloom.cpu.kernels.sort.element_keys import ElementKey
from xloom.cpu.kernels.sort.key_order import keys_of
from xloom.cpu.kernels.sort.lanes import lanes, vector
from xloom.cpu.kernels.sort.signatures import RESTORE
from xloom.llvm.folding_builder import Zeros
from xloom.llvm.masked_lanes import lane_count, leading_lanes, masked_load, masked_store, packed_lanes
from xloom.llvm.phi_loop import PhiLoop
from xloom.llvm.routine import exported_function
from xloom.llvm.types import I1, I64
from xloom.llvm.vectors import splat


def add_restore(module: ir.Module, key: ElementKey) -> None:
    """Adds `restore`: for zeros, and then for NaNs."""
    out = exported_function(module, RESTORE, key.restore_symbol)
    b = ir.IRBuilder(out.append_basic_block("entry"))
    kind = ir.IntType(key.dtype.bits)
    last = kind(key.integer(0 if key.nan is None else key.nan))
    classes = PhiLoop(b, kind(key.integer(0)), name="class")
    (value,) = classes.variables
    _restore_class(b, out, key, splat(b, value, lanes(key.dtype.bits)))
    classes.again_if(b.icmp_unsigned("!=", value, last), last)
    b.ret_void()


def _restore_class(b: ir.IRBuilder, out: ir.Function, key: ElementKey, values: ir.Value) -> None:
    """The first pass counts the elements below the key, the second puts those of the key behind them."""
    bits = key.dtype.bits
    kind, w, align = vector(bits), lanes(bits), bits // 8
    unsorted, count, elements, begin, end = out.args
    passes = PhiLoop(b, I64(0), I1(1), name="pass")
    first, counts = passes.variables
    vectors = PhiLoop(b, I64(0), first, name="vector")
    i, at = vectors.variables
    source = b.gep(unsorted, [i], inbounds=True, source_etype=kind.element)
    mask = leading_lanes(b, w, b.sub(count, i))
    x = masked_load(b, source, mask, Zeros(kind, None), align)
    keys = keys_of(b, key, x)
    below, equal = b.icmp_unsigned("<", keys, values), b.icmp_unsigned("==", keys, values)
    found = b.and_(b.select(counts, below, equal), mask)
    some = lane_count(b, found)
    put, done = b.append_basic_block("put"), b.append_basic_block("vector.done")
    b.cbranch(counts, done, put)
    b.position_at_end(put)
    packed = packed_lanes(b, x, found)
    target = b.gep(elements, [at], inbounds=True, source_etype=kind.element)
    masked_store(b, packed, target, leading_lanes(b, w, some), align)
    b.branch(done)
    b.position_at_end(done)
    at, i = b.add(at, some), b.add(i, I64(w))
    vectors.again_if(b.icmp_signed("<", i, count), i, at)
    inside = b.and_(b.icmp_signed(">=", at, begin), b.icmp_signed("<", at, end))
    passes.again_if(b.and_(counts, inside), at, I1(0))
