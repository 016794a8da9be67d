"""Random numbers of a hidden state: a 128-bit counter that every run of the program moves on."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

from llvmlite import ir

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder, kernel
from xloom.cpu.kernels.random.cipher import LANES, Pair, counters, halves, philox_4x32, splat
from xloom.cpu.kernels.random.rng_bit_generator import GRAIN, elements, philox_blocks, philox_groups
from xloom.errors import LoweringError
from xloom.hlo.dtype import DType, Kind, u32, u64
from xloom.hlo.instruction import Instruction
from xloom.llvm import element_access, math, types
from xloom.llvm.loop import allocate, loop
from xloom.llvm.memory_copy import copy
from xloom.llvm.scalar.conversion import wrapped
from xloom.llvm.types import I1, I64

Numbers = Callable[[ir.Value, ir.Value], list[ir.Value]]
_SEED = 0x7012395
"""Any number: the first state of a process."""
_KEY = 0x5DEECE66D  # any: the state is all that tells runs apart


@kernel("rng-get-and-update-state")
def rng_get_and_update_state(kernel: Kernel, instruction: Instruction) -> None:
    """The counter's (high, low) words, before it advances by delta."""
    with kernel.phase() as p, loop(p.b, p.begin, p.end):
        low, high = _advance(p.b, instruction["delta"])
        p.store(0, I64(0), high)
        p.store(0, I64(1), low)


@kernel("rng")
def rng(kernel: Kernel, instruction: Instruction) -> None:
    """Uniform in [a, b), or normal of mean a and deviation b; Philox of the counter."""
    shape = kernel.outputs[0]
    dtype, normal = shape.dtype, instruction["distribution"] == "rng_normal"
    if normal and not dtype.is_float:
        raise LoweringError(f"normal random numbers of type {dtype.name}", where=instruction.name)
    chosen(
        f"Philox of {LANES} counters side by side" + (", and Box and Muller's transform" if normal else ""),
        "the state is a counter, so that threads share the numbers whatever their number",
    )
    start = kernel.add_scratch(16)
    with kernel.phase() as p, loop(p.b, p.begin, p.end):
        for k, word in enumerate(_advance(p.b, philox_blocks(shape))):
            p.b.store(word, _scratch_word(p, start, k))
    numbers = _normal if normal else _uniform
    with kernel.phase(philox_groups(shape), GRAIN // 4) as p:
        b = p.b
        counter = [b.load(_scratch_word(p, start, k), typ=I64) for k in range(2)]
        a, z = (p.load(k, I64(0)) for k in range(2))
        key = halves(b, splat(b, I64(_KEY)))
        with loop(b, p.begin, p.end) as group:
            words = philox_4x32(b, counters(b, counter[0], counter[1], b.mul(group, I64(LANES))), key)
            bits = elements(b, u64 if dtype.bits == 64 else u32, words)
            _write(p, group, bits, lambda x, y: numbers(b, dtype, (a, z), (x, y)))


def _scratch_word(p: PhaseBuilder, scratch: int, number: int) -> ir.Value:
    return p.b.gep(p.scratch(scratch), [I64(number)], inbounds=True, source_etype=I64)


def _advance(b: ir.IRBuilder, delta: int) -> Pair:
    """Adds to the counter, which all kernels of a program share; its (low, high) words before."""
    name = "xloom.rng_state"
    kind = ir.ArrayType(I64, 2)
    state = b.module.globals.get(name)
    if state is None:
        state = ir.GlobalVariable(b.module, kind, name)
        state.linkage, state.initializer = "weak", ir.Constant(kind, [_SEED, 0])
        state.align = 16
    low = b.atomic_rmw("add", state, I64(delta % (1 << 64)), "monotonic")
    carry = b.zext(b.icmp_unsigned("<", b.add(low, I64(delta % (1 << 64))), low), I64)
    word = b.gep(state, [I64(0), I64(1)], inbounds=True, source_etype=kind)
    high = b.atomic_rmw("add", word, b.add(carry, I64((delta >> 64) % (1 << 64))), "monotonic")
    return low, high


def _write(p: PhaseBuilder, group: ir.Value, bits: ir.Value, numbers: Numbers) -> None:
    """Writes the numbers that pairs of random words give: `numbers(x, y)` are two."""
    b, shape = p.b, p.kernel.outputs[0]
    dtype, kind, count = shape.dtype, bits.type.element, bits.type.count
    words = allocate(b, bits.type)
    b.store(bits, words)
    rest = allocate(b, ir.ArrayType(ir.IntType(8), count * dtype.bytes))
    start = types.element_pointer(b, p.output(0), dtype, b.mul(group, I64(count)))
    whole = b.icmp_signed("<", group, I64(shape.size // count))
    target = b.select(whole, start, rest)
    with loop(b, 0, count // 2) as i:
        j = b.add(i, I64(count // 2))
        x, y = (b.load(b.gep(words, [k], inbounds=True, source_etype=kind), typ=kind) for k in (i, j))
        for k, number in zip((i, j), numbers(x, y), strict=True):
            element_access.store(b, target, dtype, k, number)
    if shape.size % count:
        with b.if_then(b.not_(whole)):
            copy(b, start, rest, shape.size % count * dtype.bytes)


def _uniform(b: ir.IRBuilder, dtype: DType, bounds: Pair, words: Pair) -> list[ir.Value]:
    low, high = bounds
    if dtype.kind is Kind.PRED:
        return [b.trunc(w, I1) for w in words]
    if dtype.is_integer:
        return [_integer(b, dtype, low, high, w) for w in words]
    out = []
    for word in words:
        number = b.fadd(low, b.fmul(_fraction(b, word), b.fsub(high, low)))
        out.append(b.select(b.fcmp_ordered("<", number, high), number, low))
    return out


def _integer(b: ir.IRBuilder, dtype: DType, low: ir.Value, high: ir.Value, word: ir.Value) -> ir.Value:
    signed = dtype.kind is Kind.SIGNED
    extend = b.sext if signed else b.zext
    wide = ir.IntType(2 * word.type.width)
    low, high = extend(low, wide), extend(high, wide)
    size = b.sub(high, low)
    size = b.select(b.icmp_signed("<", size, wide(1)), wide(1), size)
    part = b.lshr(b.mul(b.zext(word, wide), size), wide(word.type.width))
    return wrapped(b, b.trunc(b.add(low, part), types.register_type(dtype)), dtype)


def _fraction(b: ir.IRBuilder, word: ir.Value) -> ir.Value:
    """A float in [0, 1), as many bits as it has."""
    kind, digits = (types.DOUBLE, 53) if word.type.width == 64 else (types.FLOAT, 24)
    return b.fmul(b.uitofp(b.lshr(word, word.type(word.type.width - digits)), kind), ir.Constant(kind, 2.0**-digits))


def _normal(b: ir.IRBuilder, dtype: DType, moments: Pair, words: Pair) -> list[ir.Value]:
    """Box and Muller's: the polar coordinates of two normal numbers."""
    mean, deviation = moments
    x, y = (_fraction(b, w) for w in words)
    kind = x.type
    logarithm = math.call(b, "log", b.fsub(ir.Constant(kind, 1.0), x))
    radius = b.fmul(deviation, math.call(b, "sqrt", b.fmul(ir.Constant(kind, -2.0), logarithm)))
    angle = b.fmul(ir.Constant(kind, 2 * pi), y)
    return [b.fadd(mean, b.fmul(radius, math.call(b, f, angle))) for f in ("cosine", "sine")]
