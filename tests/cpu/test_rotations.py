"""Shifts to both sides by counts that only the run knows: rotations, of which LLVM writes one loop."""

import re

import numpy as np
import pytest

import xloom as xl
from tests.cpu.optimised import optimised
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.llvm.target import process_target


def module(dtype, size, rounds=1, other="subtract(w, n{k})"):
    """Rounds, each by its own element of a second argument."""
    shape = f"{dtype}[{size}]"
    text = f"x0 = {shape} parameter(0) counts = {dtype}[{rounds}] parameter(1) width = {dtype}[] constant({dtype[1:]}) "
    text += f"w = {shape} broadcast(width), dimensions={{}} "
    for k in range(rounds):
        text += (
            f"c{k} = {dtype}[1] slice(counts), slice={{[{k}:{k + 1}]}} e{k} = {dtype}[] reshape(c{k}) "
            f"n{k} = {shape} broadcast(e{k}), dimensions={{}} m{k} = {shape} {other.format(k=k)} "
            f"a{k} = {shape} shift-left(x{k}, n{k}) b{k} = {shape} shift-right-logical(x{k}, m{k}) "
            f"o{k} = {shape} or(b{k}, a{k}) x{k + 1} = {shape} add(o{k}, x{k}) "
        )
    return xl.parse(f"HloModule m\nENTRY e {{ {text} ROOT r = {shape} negate(x{rounds}) }}")


@pytest.mark.parametrize("other", ["subtract(w, n{k})", "subtract(n{k}, w)"])
@pytest.mark.parametrize("dtype", ["u8", "s16", "u32", "s32", "u64"])
def test_every_count(dtype, other):
    program = module(dtype, 100, other=other)
    compiled, kind = xl.compile(program), program.entry.parameters[0].shape.dtype.numpy
    given = np.random.default_rng(0).integers(0, 256, 100 * kind.itemsize, np.uint8).view(kind)
    width = 8 * given.itemsize
    for count in (0, 1, width - 1, width, width + 1, 2 * width, 100):
        counts = np.array([count], kind)
        np.testing.assert_array_equal(compiled(given, counts), xl.evaluate(program, given, counts))


def test_a_loop_is_written_once():
    """Choices by what stays the same in a loop make LLVM write it again for each outcome."""
    (kernel,) = lowered(prepared(module("u32", 70001, rounds=6)), process_target())[-1].modules.values()
    blocks = str(optimised(kernel.text)).split("\n\n")
    assert sum(bool(re.search(r"call <\d+ x i32> @llvm\.fsh", block)) for block in blocks) <= 4  # and what is left over
