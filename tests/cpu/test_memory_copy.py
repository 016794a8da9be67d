"""Copies between places that lie anywhere, also where processors copy slowly: in pieces there."""

import ctypes

import numpy as np
import pytest
from llvmlite import ir

import xloom as xl
from xloom.llvm import jit
from xloom.llvm.memory_copy import copy_part
from xloom.llvm.module_text import module_text
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.target import process_target
from xloom.llvm.target_module import TargetModule
from xloom.llvm.types import I64, POINTER, VOID

PAGE = 4096


@pytest.fixture(scope="module")
def copied():
    module = TargetModule(process_target())
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, POINTER, I64]), "copied")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    copy_part(b, *function.args)
    b.ret_void()
    library = jit.Library([jit.process_code(module_text(module), PassPipeline.VECTORS)], ["copied"])
    yield library.function("copied", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64))


@pytest.mark.parametrize("size", [0, 1, 2047, 2048, 2049, 5000, 20_000])
@pytest.mark.parametrize("behind", [-1, 0, 1, 4, 15, 16, 100])
def test_copies(copied, size, behind):
    """The target is so many bytes behind the source, counted within pages."""
    raw = (np.arange(2 * size + 4 * PAGE) % 251).astype(np.uint8)
    source = PAGE
    target = source + PAGE * (size // PAGE + 1) + behind
    expected = raw.copy()
    expected[target : target + size] = raw[source : source + size]
    copied(raw.ctypes.data + target, raw.ctypes.data + source, size)
    np.testing.assert_array_equal(raw, expected)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_few_complex_numbers_lie_as_their_parts_do(count):
    """At multiples of 8 bytes, where vectors fault that are said to lie at multiples of 16."""
    kind = f"c128[{count}]"
    executable = xl.compile(
        xl.parse(
            f"same {{ ROOT p = {kind} parameter(0) }} negated {{ p = {kind} parameter(0) ROOT n = {kind} negate(p) }}\n"
            f"ENTRY e {{ g = pred[] parameter(0) p = {kind} parameter(1) q = {kind} parameter(2) "
            f"ROOT c = {kind} conditional(g, p, q), true_computation=same, false_computation=negated }}"
        )
    )
    raw = np.arange(4 * count + 8, dtype=np.float64)
    first = 1 + raw.ctypes.data % 16 // 8  # of `raw`, at 8 bytes behind a multiple of 16
    p, q = (raw[k : k + 2 * count].view(np.complex128) for k in (first, first + 2 * count))
    np.testing.assert_array_equal(executable(np.True_, p, q), p)
