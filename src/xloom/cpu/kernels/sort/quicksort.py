"""Quicksort of unsigned integers by vectors: functions that depend on no shape.

Parts of few vectors are sorted by a bitonic network, a function of another module. After a partition that splits off
next to nothing, the next pivot halves the range of values, so that no input takes quadratic time.
"""

from __future__ import annotations

from functools import lru_cache

from llvmlite import ir

from xloom.cpu.kernels.sort.bitonic_sizes import MOST
from xloom.cpu.kernels.sort.integer_layout import Layout
from xloom.cpu.kernels.sort.lanes import BYTES, lanes, vector
from xloom.cpu.kernels.sort.partition import Integers, Partition, partition_buffer
from xloom.cpu.kernels.sort.signatures import NETWORK, SORT, network_symbol, sort_symbol
from xloom.llvm.intrinsics import intrinsic, overloaded
from xloom.llvm.loop import allocate
from xloom.llvm.masked_lanes import leading_lanes
from xloom.llvm.module_text import module_text
from xloom.llvm.phi_loop import PhiLoop
from xloom.llvm.routine import exported_function, function
from xloom.llvm.types import I1, I64, POINTER
from xloom.llvm.vectors import uniform

_SAMPLE = 4
"""Vectors of which the median is taken, at most."""


@lru_cache(maxsize=4)
def quicksort_module(bits: int, apart: bool = False) -> str:
    """A module that has the function."""
    module = ir.Module()
    layout = Layout(bits, apart)
    _add_sort(module, layout, _few(module, layout))
    return module_text(module)


def _few(module: ir.Module, layout: Layout) -> ir.Function:
    """`few(ptr integers, i64 distance, i64 count)`: sorts so many as the network does."""
    bits, w = layout.bits, lanes(layout.bits)
    kind = vector(bits)
    network = ir.Function(module, NETWORK, network_symbol(bits))
    with function(module, "few", [POINTER, I64, I64]) as (b, out):
        integers, distance, count = out.args
        buffer = allocate(b, kind, MOST)
        buffer.align = BYTES
        loop = PhiLoop(b, I64(0), name="load")
        (i,) = loop.variables
        mask = leading_lanes(b, w, b.sub(count, i))
        x = layout.load(b, layout.at(b, integers, i), distance, mask)
        b.store(x, b.gep(buffer, [i], inbounds=True, source_etype=kind.element), align=BYTES)
        i = b.add(i, I64(w))
        loop.again_if(b.icmp_signed("<", i, count), i)
        b.call(network, [buffer, count])
        loop = PhiLoop(b, I64(0), name="store")
        (i,) = loop.variables
        mask = leading_lanes(b, w, b.sub(count, i))
        x = b.load(b.gep(buffer, [i], inbounds=True, source_etype=kind.element), typ=kind, align=BYTES)
        layout.store(b, x, layout.at(b, integers, i), distance, mask)
        i = b.add(i, I64(w))
        loop.again_if(b.icmp_signed("<", i, count), i)
    return out


def _add_sort(module: ir.Module, layout: Layout, few: ir.Function) -> None:
    """Sorts; or when it is to be once, only brings some of the least to the front, and says how many these are."""
    out = exported_function(module, SORT, sort_symbol(layout.bits, layout.apart))
    first, distance, count, first_skewed, once = out.args
    b = ir.IRBuilder(out.append_basic_block("entry"))
    sample = allocate(b, vector(layout.bits), _SAMPLE)
    sample.align = BYTES
    buffer = partition_buffer(b, layout)
    done = b.append_basic_block("done")
    with b.goto_block(done):
        result = b.phi(I64)
        b.ret(result)
    parts = PhiLoop(b, first, count, first_skewed, name="part")
    pointer, count, skewed = parts.variables
    integers = Integers(pointer, distance, count)
    with b.if_then(b.icmp_signed("<=", count, I64(MOST * lanes(layout.bits)))):
        _return_if(b, once, result, I64(0))
        b.call(few, [*integers])
        b.ret(I64(0))
    with b.if_else(skewed) as (by_range, by_sample):
        with by_range:
            least, width = _range(b, layout, integers)
            middle = b.add(b.add(least, b.lshr(width, width.type(1))), width.type(1))
            _return_if(b, b.icmp_unsigned("==", width, width.type(0)), result, I64(0))
            after_range = b.block
        with by_sample:
            median = _median(b, layout, integers, sample, few)
            after_sample = b.block
    pivot = b.phi(middle.type)
    pivot.add_incoming(middle, after_range)
    pivot.add_incoming(median, after_sample)
    lesser = Partition(b, layout, integers, pivot, buffer).emit()
    greater, behind = b.sub(count, lesser), layout.at(b, pointer, lesser)
    _return_if(b, once, result, lesser)
    fewer = b.icmp_signed("<", lesser, greater)
    shorter = b.select(fewer, pointer, behind), b.select(fewer, lesser, greater)
    longer = b.select(fewer, behind, pointer), b.select(fewer, greater, lesser)
    skewed = b.icmp_signed("<", shorter[1], b.lshr(count, I64(4)))
    b.call(out, [shorter[0], distance, shorter[1], skewed, I1(0)])
    parts.again(*longer, skewed)


def _return_if(b: ir.IRBuilder, condition: ir.Value, result: ir.PhiInstr, value: ir.Value) -> None:
    """Leaves the function by the block that returns `result`; else the builder goes on."""
    result.add_incoming(value, b.block)
    rest = b.append_basic_block("rest")
    b.cbranch(condition, result.parent, rest)
    b.position_at_end(rest)


def _range(b: ir.IRBuilder, layout: Layout, integers: Integers) -> tuple[ir.Value, ir.Value]:
    """The least value, and how much more the greatest is."""
    kind, w = vector(layout.bits), I64(lanes(layout.bits))
    last = b.sub(integers.count, w)
    loop = PhiLoop(b, I64(0), uniform(kind, -1), uniform(kind, 0), name="range")
    i, low, high = loop.variables
    at = b.select(b.icmp_signed("<", i, last), i, last)
    x = layout.load(b, layout.at(b, integers.pointer, at), integers.distance)
    low, high = intrinsic(b, "umin", low, x), intrinsic(b, "umax", high, x)
    i = b.add(i, w)
    loop.again_if(b.icmp_signed("<", i, integers.count), i, low, high)
    least, greatest = (
        overloaded(b, f"vector.reduce.{name}", [kind], kind.element, [x]) for name, x in (("umin", low), ("umax", high))
    )
    return least, b.sub(greatest, least)


def _median(b: ir.IRBuilder, layout: Layout, integers: Integers, sample: ir.Value, few: ir.Function) -> ir.Value:
    """That of a few values."""
    distance = I64(BYTES * _SAMPLE // 2)
    long = b.icmp_signed(">", integers.count, I64(2047))
    count = b.shl(I64(lanes(layout.bits)), b.select(long, I64(2), I64(0)))
    step, half = b.udiv(integers.count, count), b.lshr(count, I64(1))
    loop = PhiLoop(b, I64(0), half, name="sample")
    i, at = loop.variables
    x = layout.load_one(b, layout.at(b, integers.pointer, at), integers.distance)
    layout.store(b, x, layout.at(b, sample, i), distance)
    i, at = b.add(i, I64(1)), b.add(at, step)
    loop.again_if(b.icmp_signed("<", i, count), i, at)
    b.call(few, [sample, distance, count])
    return layout.load_one(b, layout.at(b, sample, half), distance)
