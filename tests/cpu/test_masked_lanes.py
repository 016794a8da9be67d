"""Lanes that a mask names."""

import ctypes

import numpy as np
import pytest
from llvmlite import ir

from xloom.llvm import jit
from xloom.llvm.masked_lanes import masked_store
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.target import process_target
from xloom.llvm.types import I1, POINTER, VOID
from xloom.llvm.vectors import constant_vector


def store_of(wide, narrow, lanes, lane):
    """A function that stores one lane of a vector whose integers it makes narrow."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(VOID, [POINTER, POINTER]), "store")
    b = ir.IRBuilder(function.append_basic_block())
    source, target = function.args
    vector = b.load(source, typ=ir.VectorType(ir.IntType(wide), lanes), align=1)
    mask = constant_vector([int(k == lane) for k in range(lanes)], I1)
    masked_store(b, b.trunc(vector, ir.VectorType(ir.IntType(narrow), lanes)), target, mask, align=1)
    b.ret_void()
    return str(module)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
@pytest.mark.parametrize(("wide", "narrow"), [(32, 16), (32, 8), (16, 8), (64, 32), (64, 16), (64, 8)])
def test_one_lane_is_stored_as_wide_as_it_is(wide, narrow, lanes):
    """LLVM stored what it was before it was made narrow, over the elements behind it."""
    given = np.arange(lanes).astype(f"u{wide // 8}") + 0x101
    for lane in (0, 1, lanes - 1):
        library = jit.Library(
            [jit.made_anew(store_of(wide, narrow, lanes, lane), PassPipeline.VECTORS, process_target())], ["store"]
        )
        found = np.zeros(lanes + 8, f"u{narrow // 8}") + 7
        expected = found.copy()
        expected[lane] = given[lane].astype(found.dtype)
        store = library.function("store", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p))
        store(given.ctypes.data, found.ctypes.data)
        np.testing.assert_array_equal(found, expected)
