"""Bitonic sort of vectors of integers: functions that depend on no shape.

Batcher, "Sorting networks and their applications", 1968. Blocks of a few vectors are sorted and merged in registers,
and what is longer is halved until it is a block.
"""

from __future__ import annotations

from functools import lru_cache

from llvmlite import ir

from xloom.cpu.kernels.sort.bitonic_block import Blocks
from xloom.cpu.kernels.sort.bitonic_sizes import FEW_ROWS, ROWS
from xloom.cpu.kernels.sort.lanes import BYTES, lanes, vector
from xloom.cpu.kernels.sort.signatures import NETWORK, network_symbol
from xloom.llvm.intrinsics import intrinsic, overloaded
from xloom.llvm.masked_lanes import leading_lanes
from xloom.llvm.module_text import module_text
from xloom.llvm.phi_loop import PhiLoop
from xloom.llvm.routine import exported_function, function
from xloom.llvm.types import I1, I8, I64, POINTER
from xloom.llvm.vectors import shuffled, uniform


@lru_cache(maxsize=4)
def network_module(bits: int) -> str:
    """A module that has the function."""
    module = ir.Module()
    few, block = map(Blocks(module, bits).function, (FEW_ROWS, ROWS))
    blocks = _blocks(module, bits, block)
    _add_network(module, bits, few, blocks)
    return module_text(module)


def _add_network(module: ir.Module, bits: int, few_rows: ir.Function, blocks: ir.Function) -> None:
    """The last vectors are filled up with what goes to the end."""
    kind, w = vector(bits), lanes(bits)
    shift, row_shift = I64(w.bit_length() - 1), I64(ROWS.bit_length() - 1)
    out = exported_function(module, NETWORK, network_symbol(bits))
    memory, count = out.args
    b = ir.IRBuilder(out.append_basic_block("entry"))
    needed = b.lshr(b.add(count, I64(w - 1)), shift)
    few = b.icmp_unsigned("<=", needed, I64(FEW_ROWS))
    block_count = b.lshr(b.add(needed, I64(ROWS - 1)), row_shift)
    vectors = b.select(few, I64(FEW_ROWS), b.shl(block_count, row_shift))
    loop = PhiLoop(b, b.lshr(count, shift), name="fill")
    (v,) = loop.variables
    with loop.while_(b.icmp_signed("<", v, vectors)):
        mask = leading_lanes(b, w, b.sub(count, b.shl(v, shift)))
        address = b.gep(memory, [v], inbounds=True, source_etype=kind)
        x = b.load(address, typ=kind, align=BYTES)
        b.store(b.select(mask, x, uniform(kind, -1)), address, align=BYTES)
        loop.again(b.add(v, I64(1)))
    with b.if_then(few):
        b.call(few_rows, [memory, I1(0), I1(1)])
        b.ret_void()
    b.call(blocks, [memory, block_count, I1(0), I1(1)])
    b.ret_void()


def _blocks(module: ir.Module, bits: int, block: ir.Function) -> ir.Function:
    """`blocks(ptr integers, i64 blocks, i1 merges, i1 last)`: sorts blocks, or merges what is bitonic.

    As if there were more blocks, a power of 2, which stay behind all others.
    """
    pairs, mirrored = _pairs(module, bits), _mirrored(module, bits)
    with function(module, f"blocks.{bits}", [POINTER, I64, I1, I1]) as (b, out):
        memory, count, merges, last = out.args
        with b.if_then(b.icmp_unsigned("==", count, I64(1))):
            b.call(block, [memory, merges, last])
            b.ret_void()
        zeros = overloaded(b, "ctlz", [I64], I64, [b.add(count, I64(-1)), I1(1)])
        half = b.shl(I64(1), b.xor(zeros, I64(63)))
        rest = b.sub(count, half)
        half_bytes, rest_bytes = (b.mul(n, I64(ROWS * BYTES)) for n in (half, rest))
        high = b.gep(memory, [half_bytes], inbounds=True, source_etype=I8)
        end = b.gep(high, [rest_bytes], inbounds=True, source_etype=I8)
        with b.if_else(merges) as (across, sort):
            with sort:
                b.call(out, [memory, half, I1(0), I1(0)])
                b.call(out, [high, rest, I1(0), I1(0)])
                low = b.gep(high, [b.sub(I64(0), rest_bytes)], inbounds=True, source_etype=I8)
                b.call(mirrored, [low, high, end])
            with across:
                b.call(pairs, [memory, high, end])
        b.call(out, [memory, half, I1(1), last])
        b.call(out, [high, rest, I1(1), last])
    return out


def _pairs(module: ir.Module, bits: int) -> ir.Function:
    """`pairs(ptr low, ptr high, ptr end)`: the lesser ones of pairs of vectors to the low side."""
    kind = vector(bits)
    with function(module, f"pairs.{bits}", [POINTER] * 3) as (b, out):
        low, high, end = out.args
        loop = PhiLoop(b, low, high)
        p, q = loop.variables
        x, y = (b.load(address, typ=kind, align=BYTES) for address in (p, q))
        lesser, greater = intrinsic(b, "umin", x, y), intrinsic(b, "umax", x, y)
        b.store(lesser, p, align=BYTES)
        b.store(greater, q, align=BYTES)
        p, q = (b.gep(address, [I64(BYTES)], inbounds=True, source_etype=I8) for address in (p, q))
        loop.again_if(b.icmp_unsigned("<", q, end), p, q)
    return out


def _mirrored(module: ir.Module, bits: int) -> ir.Function:
    """`mirrored(ptr low, ptr high, ptr end)`: the same, with the high side from its end on."""
    kind = vector(bits)
    backwards = range(kind.count - 1, -1, -1)
    with function(module, f"mirrored.{bits}", [POINTER] * 3) as (b, out):
        low, high, end = out.args
        loop = PhiLoop(b, low, end)
        p, behind = loop.variables
        q = b.gep(behind, [I64(-BYTES)], inbounds=True, source_etype=I8)
        x, y = (b.load(address, typ=kind, align=BYTES) for address in (p, q))
        y = shuffled(b, y, backwards)
        lesser, greater = intrinsic(b, "umin", x, y), intrinsic(b, "umax", x, y)
        greater = shuffled(b, greater, backwards)
        b.store(lesser, p, align=BYTES)
        b.store(greater, q, align=BYTES)
        p = b.gep(p, [I64(BYTES)], inbounds=True, source_etype=I8)
        loop.again_if(b.icmp_unsigned(">", q, high), p, q)
    return out
