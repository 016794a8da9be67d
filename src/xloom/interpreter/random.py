"""Random bits and numbers, bit for bit as XLA:CPU generates the algorithmic ones.

Threefry-2x32 and Philox-4x32: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xloom.errors import UnsupportedError
from xloom.hlo.shape import Shape
from xloom.interpreter.registry import Value, evaluates

if TYPE_CHECKING:
    from xloom.hlo.instruction import Instruction
    from xloom.interpreter.evaluator import Evaluator

U32, U64 = np.uint32, np.uint64
_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


def threefry_2x32(x0: np.ndarray, x1: np.ndarray, k0: np.ndarray, k1: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """20 rounds on u32 arrays."""
    keys = (k0, k1, U32(0x1BD11BDA) ^ k0 ^ k1)
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for step in range(5):
        for rotation in _ROTATIONS[:4] if step % 2 == 0 else _ROTATIONS[4:]:
            x0 = x0 + x1
            x1 = (x1 << U32(rotation)) | (x1 >> U32(32 - rotation))
            x1 = x0 ^ x1
        x0 = x0 + keys[(step + 1) % 3]
        x1 = x1 + keys[(step + 2) % 3] + U32(step + 1)
    return x0, x1


def philox_4x32(state: Sequence[np.ndarray], key: Sequence[np.ndarray]) -> list[np.ndarray]:
    """10 rounds on u32 arrays."""
    x0, x1, x2, x3 = state
    k0, k1 = key
    for _ in range(10):
        p0 = x0.astype(U64) * U64(0xD2511F53)
        p1 = x2.astype(U64) * U64(0xCD9E8D57)
        low0, high0 = p0.astype(U32), (p0 >> U64(32)).astype(U32)
        low1, high1 = p1.astype(U32), (p1 >> U64(32)).astype(U32)
        x0, x1, x2, x3 = high1 ^ x1 ^ k0, low1, high0 ^ x3 ^ k1, low0
        k0, k1 = k0 + U32(0x9E3779B9), k1 + U32(0xBB67AE85)
    return [x0, x1, x2, x3]


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x.astype(U32), (x >> U64(32)).astype(U32)


def _joined(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low.astype(U64) | (high.astype(U64) << U64(32))


def _threefry_bits(state: np.ndarray, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Random u32 (u64 for 64-bit types) of `shape`, and the next state."""
    key = _halves(state[0])
    counter = state[1:2]
    if shape.dtype.bits == 64:
        count = math.prod(shape.dims)
        x = counter + np.arange(count, dtype=U64)
        bits = _joined(*threefry_2x32(*_halves(x), *key)).reshape(shape.dims)
        return bits, np.concatenate([state[:1], counter + U64(count)])
    dims = shape.dims
    if not dims:
        first, _ = threefry_2x32(*_halves(counter + U64(0)), *key)
        return first.reshape(()), np.concatenate([state[:1], counter + U64(1)])
    even = [k for k, d in enumerate(dims) if d % 2 == 0]
    split = even[0] if even else int(np.argmax(dims))
    half = [*dims]
    half[split] = -(-dims[split] // 2)
    count = math.prod(half)
    x = (counter + np.arange(count, dtype=U64)).reshape(half)
    pair = threefry_2x32(*_halves(x), *key)
    # the two words of each counter lie next to each other along the split dimension
    bits = np.stack(pair, axis=split + 1)
    full = [*dims]
    full[split] = 2 * half[split]
    bits = bits.reshape(full)
    return np.take(bits, range(dims[split]), axis=split), np.concatenate([state[:1], counter + U64(count)])


def _philox_bits(state: np.ndarray, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    key = _halves(state[0])
    # a state of two words holds key and low counter; its counter's high word is the key
    low, high = (state[1], state[2]) if state.shape[0] >= 3 else (state[1], state[0])
    words = 2 if shape.dtype.bits == 64 else 1
    count = math.prod(shape.dims)
    blocks = -(-count * words // 4)
    lows = low + np.arange(blocks, dtype=U64)
    highs = np.where(lows < low, high + U64(1), high)
    out = philox_4x32([*_halves(lows), *_halves(highs)], key)
    if words == 2:
        numbers = np.stack([_joined(out[0], out[1]), _joined(out[2], out[3])], axis=1)
    else:
        numbers = np.stack(out, axis=1)
    next_low = low + U64(blocks)
    next_high = high + U64(1) if next_low < low else high
    tail = [next_low, next_high] if state.shape[0] >= 3 else [next_low]
    return numbers.reshape(-1)[:count].reshape(shape.dims), np.array([state[0], *tail], U64)


@evaluates("rng-bit-generator")
def rng_bit_generator(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """(next state, bits); the default algorithm is Philox, as on XLA:CPU."""
    state = operands[0]
    shape = instruction.shape.elements[1]
    if state.dtype != U64:
        words = np.asarray(state, order="C").view(U64)
    else:
        words = state
    generate = _threefry_bits if instruction["algorithm"] == "rng_three_fry" else _philox_bits
    bits, after = generate(words, shape)
    width = min(shape.dtype.bits, 64)
    carrier = bits.astype(np.dtype(f"u{max(1, width // 8)}")) if width >= 8 else bits & U32((1 << width) - 1)
    numpy = shape.dtype.numpy
    if shape.dtype.is_integer and width >= 8:
        value = carrier.view(numpy)
    elif shape.dtype.is_integer:
        signed = carrier.astype(np.int64)
        top = shape.dtype.name.startswith("s") & (signed >> (width - 1) & 1)
        value = np.where(top, signed - (1 << width), signed).astype(np.int8).astype(numpy)
    else:
        value = carrier.view(numpy)
    return (after if state.dtype == U64 else after.view(state.dtype), value)


@evaluates("rng-get-and-update-state")
def rng_state(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """The evaluator's 128-bit counter, before it advances by delta: (high, low) words."""
    value = evaluator.rng_state
    evaluator.rng_state = (value + instruction["delta"]) % (1 << 128)
    return np.array([value >> 64, value & (2**64 - 1)], U64)


@evaluates("rng")
def rng(instruction: Instruction, operands: Sequence[Value], evaluator: Evaluator) -> Value:
    """Uniform in [a, b) or normal of mean a and deviation b, from the evaluator's seeded generator."""
    a, b = operands
    dtype, dims = instruction.shape.dtype, instruction.shape.dims
    generator = evaluator.generator
    if instruction["distribution"] == "rng_normal":
        if not dtype.is_float:
            raise UnsupportedError(f"normal random numbers of type {dtype.name}", where=instruction.name)
        return (generator.standard_normal(dims) * float(b) + float(a)).astype(dtype.numpy)
    if dtype.name == "pred":
        return generator.integers(0, 2, dims).astype(np.bool_)
    if dtype.is_integer:
        low, high = int(a), int(b)
        return generator.integers(low, max(low + 1, high), dims, dtype=np.int64).astype(dtype.numpy)
    return (generator.random(dims) * (float(b) - float(a)) + float(a)).astype(dtype.numpy)
