"""Squares of vectors in registers: transposed, by instructions that move lanes within blocks and whole blocks."""

import ctypes
import re

import numpy as np
import pytest
from llvmlite import ir

from xloom.llvm import jit
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.register_transpose import transposed
from xloom.llvm.target import process_target, target_named

BITS = {np.int8: 8, np.int16: 16, np.int32: 32, np.int64: 64, np.float32: 32, np.float64: 64}
KINDS = {32: ir.FloatType(), 64: ir.DoubleType()}


def text_of(kind, side):
    """A function that transposes so many lines from one place to another."""
    module = ir.Module()
    pointer = ir.PointerType()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, pointer]), "turn")
    b = ir.IRBuilder(function.append_basic_block())
    element = KINDS[BITS[kind]] if issubclass(kind, np.floating) else ir.IntType(BITS[kind])
    vector = ir.VectorType(element, side)
    source, target = function.args

    def at(where, k):
        return b.gep(where, [ir.IntType(64)(k)], source_etype=vector)

    for k, line in enumerate(transposed(b, [b.load(at(source, k), typ=vector, align=1) for k in range(side)])):
        b.store(line, at(target, k), align=1)
    b.ret_void()
    return str(module)


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("side", [2, 4, 8, 16, 32])
def test_columns_become_lines(kind, side):
    code = jit.made_anew(text_of(kind, side), PassPipeline.VECTORS, process_target())
    turn = jit.Library([code], ["turn"])
    given = np.arange(side * side).astype(kind).reshape(side, side)
    found = np.empty_like(given)
    pointers = [array.ctypes.data for array in (given, found)]
    turn.function("turn", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p))(*pointers)
    np.testing.assert_array_equal(found, given.T)


@pytest.mark.parametrize(("kind", "side"), [(np.float32, 16), (np.int32, 16), (np.float64, 8), (np.int16, 32)])
def test_no_shuffle_needs_a_table(kind, side):
    """LLVM looks long for what shuffles of any other form could be together."""
    code = jit.assembly(text_of(kind, side), PassPipeline.VECTORS, target_named("x86-64-v4"))
    assert not re.findall(r"\bvperm[it]2\w+", code)
    assert len(re.findall(r"\bv(?:p?unpck|shuf|insert|perm|extract)\w+", code)) <= side * (side.bit_length() - 1)
