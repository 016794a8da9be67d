"""Random bits of a given state, bit for bit those of XLA."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from llvmlite import ir

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder, kernel
from xloom.cpu.kernels.random.cipher import (
    LANES,
    Pair,
    counters,
    halves,
    interleaved,
    joined,
    philox_4x32,
    splat,
    threefry_2x32,
    vector,
)
from xloom.hlo.dtype import DType, Kind
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.loop import allocate, loop
from xloom.llvm.memory_copy import copy
from xloom.llvm.types import I64

GRAIN = 1 << 10
"""Groups of blocks that are worth a thread."""


@kernel("rng-bit-generator")
def rng_bit_generator(kernel: Kernel, instruction: Instruction) -> None:
    """(next state, bits); the default algorithm is Philox, as in XLA:CPU."""
    is_threefry = instruction["algorithm"] == "rng_three_fry"
    chosen(
        f"{'Threefry' if is_threefry else 'Philox'} of {LANES} counters side by side",
        "a block of numbers needs no other, so that threads share them",
    )
    if is_threefry:
        _threefry(kernel)
    else:
        _philox(kernel)


# -- the state: 64-bit words, perhaps written as pairs of 32-bit ones ----------------------------------------------


def _word(p: PhaseBuilder, pointer: ir.Value, number: int) -> ir.Value:
    return p.b.gep(pointer, [I64(number)], inbounds=True, source_etype=I64)


def _load(p: PhaseBuilder, number: int) -> ir.Value:
    return p.b.load(_word(p, p.operand(0), number), typ=I64, align=4)


def _store_state(p: PhaseBuilder, words: Sequence[ir.Value]) -> None:
    for k, word in enumerate(words):
        p.b.store(word, _word(p, p.output(0), k), align=4)


# -- threefry ------------------------------------------------------------------------------------------------------


def _threefry(kernel: Kernel) -> None:
    """The first state word is the key, the second the counter; block k is counter + k, encrypted.

    A block is one 64-bit element; or two narrower ones, neighbours along the split dimension: the first one of even
    size, else the longest, where the last block is then half used.
    """
    shape = kernel.outputs[1]
    dtype, dims = shape.dtype, shape.dims or (1,)
    split = next((k for k, d in enumerate(dims) if d % 2 == 0), int(np.argmax(dims)))
    length, inner = dims[split], math.prod(dims[split + 1 :])
    blocks = shape.size if dtype.bits == 64 else shape.size // max(1, length) * -(-length // 2)
    with kernel.phase() as p, loop(p.b, p.begin, p.end):
        _store_state(p, [_load(p, 0), p.b.add(_load(p, 1), I64(blocks))])
    dense = dtype.bits == 64 or (inner == 1 and (length % 2 == 0 or length == shape.size))
    with kernel.phase(-(-blocks // LANES), GRAIN) as p:
        b, out = p.b, p.output(1)
        key, counter = halves(b, splat(b, _load(p, 0))), (_load(p, 1), I64(0))
        with loop(b, p.begin, p.end) as group:
            first = b.mul(group, I64(LANES))
            words = threefry_2x32(b, halves(b, counters(b, *counter, first)[0]), key)
            if dense:
                write(b, out, dtype, group, elements(b, dtype, words), shape.size)
            else:
                _scatter(b, out, dtype, first, elements(b, dtype, words), (blocks, length, inner))


def _scatter(
    b: ir.IRBuilder, out: ir.Value, dtype: DType, first: ir.Value, bits: ir.Value, sizes: tuple[int, int, int]
) -> None:
    """Writes the pairs of elements of a group of blocks, `inner` elements apart in rows of `length` times as many."""
    blocks, length, inner = sizes
    kind = bits.type.element
    pairs = allocate(b, bits.type)
    b.store(bits, pairs)
    left = I64(blocks) if blocks < LANES else b.sub(I64(blocks), first)
    with loop(b, 0, _least(b, left, LANES)) as lane:
        row, column = _divided(b, b.add(first, lane), inner)
        outer, k = _divided(b, row, (length + 1) // 2)
        row = b.add(b.mul(outer, I64(length)), b.shl(k, I64(1)))
        address = b.gep(out, [b.add(b.mul(row, I64(inner)), column)], inbounds=True, source_etype=kind)
        pair = b.gep(pairs, [b.shl(lane, I64(1))], inbounds=True, source_etype=kind)
        b.store(b.load(pair, typ=kind), address, align=dtype.bytes)
        with b.if_then(b.icmp_unsigned("<", b.add(b.shl(k, I64(1)), I64(1)), I64(length))):
            word = b.load(b.gep(pair, [I64(1)], inbounds=True, source_etype=kind), typ=kind)
            b.store(word, b.gep(address, [I64(inner)], inbounds=True, source_etype=kind), align=dtype.bytes)


def _divided(b: ir.IRBuilder, x: ir.Value, divisor: int) -> Pair:
    quotient = b.udiv(x, I64(divisor))
    return quotient, b.sub(x, b.mul(quotient, I64(divisor)))


def _least(b: ir.IRBuilder, x: ir.Value, bound: int) -> ir.Value:
    return b.select(b.icmp_signed("<", x, I64(bound)), x, I64(bound))


# -- philox --------------------------------------------------------------------------------------------------------


def _philox(kernel: Kernel) -> None:
    """The first state word is the key, the others the 128-bit counter; block k is counter + k, encrypted.

    A state of two words has its key for the counter's high word too.
    """
    shape = kernel.outputs[1]
    count = kernel.operands[0].nbytes // 8
    high = 2 if count > 2 else 0
    with kernel.phase() as p, loop(p.b, p.begin, p.end):
        b = p.b
        low = b.add(_load(p, 1), I64(philox_blocks(shape)))
        carry = b.zext(b.icmp_unsigned("<", low, _load(p, 1)), I64)
        _store_state(p, [_load(p, 0), low, b.add(_load(p, high), carry)][:count])
    with kernel.phase(philox_groups(shape), GRAIN) as p:
        b, out = p.b, p.output(1)
        key, counter = halves(b, splat(b, _load(p, 0))), (_load(p, 1), _load(p, high))
        with loop(b, p.begin, p.end) as group:
            words = philox_4x32(b, counters(b, *counter, b.mul(group, I64(LANES))), key)
            write(b, out, shape.dtype, group, elements(b, shape.dtype, words), shape.size)


def philox_blocks(shape: Shape) -> int:
    """How many blocks an array takes: narrow elements take a word of 32 bits each."""
    return -(-shape.size // (128 // max(32, shape.dtype.bits)))


def philox_groups(shape: Shape) -> int:
    """How many groups of Philox blocks a shape needs, each of as many as a vector of counters makes."""
    return -(-philox_blocks(shape) // LANES)


# -- vectors of elements -------------------------------------------------------------------------------------------


def elements(b: ir.IRBuilder, dtype: DType, words: Sequence[ir.Value]) -> ir.Value:
    """The elements of a type that is made of random bits, block after block."""
    if dtype.bits == 64:
        words = [joined(b, *words[k : k + 2]) for k in range(0, len(words), 2)]
    bits = interleaved(b, words)
    kind = vector(ir.IntType(8 * dtype.bytes), bits.type.count)
    if dtype.bytes < 4:
        bits = b.trunc(bits, kind)
    if dtype.bits < 8:
        missing = ir.Constant(kind, [8 - dtype.bits] * kind.count)
        shift = b.ashr if dtype.kind is Kind.SIGNED else b.lshr
        bits = shift(b.shl(bits, missing), missing)
    return bits


def write(b: ir.IRBuilder, out: ir.Value, dtype: DType, group: ir.Value, values: ir.Value, size: int) -> None:
    """Writes vector number `group` of an array of `size` elements, of the last one what there is."""
    kind, count = values.type.element, values.type.count
    first = b.mul(group, I64(count))
    address = b.gep(out, [first], inbounds=True, source_etype=kind)
    if size % count == 0:
        b.store(values, address, align=dtype.bytes)
        return
    with b.if_else(b.icmp_signed("<", group, I64(size // count))) as (whole, part):
        with whole:
            b.store(values, address, align=dtype.bytes)
        with part:
            rest = allocate(b, values.type)
            b.store(values, rest)
            copy(b, address, rest, size % count * dtype.bytes)
